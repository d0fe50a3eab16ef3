"""Kinds of ONNX operators: which belong on a GPU, and which normally stay on the CPU."""

from enum import StrEnum


class OperatorKind(StrEnum):
    """The kind of work an operator does.

    heavy      products and recurrent layers, which a GPU is for
    quantised  the same on integers
    shape      computes shapes and moves values
    control    control flow
    few        returns few values, or an unknown number of them
    random     generates random numbers
    text       text and trees
    plain      elementwise
    """

    HEAVY = "heavy"
    QUANTISED = "quantised"
    SHAPE = "shape"
    CONTROL = "control"
    FEW = "few"
    RANDOM = "random"
    TEXT = "text"
    PLAIN = "plain"


# Standard operators (onnx.ai/onnx/operators), then ONNX Runtime's own and its fused ones.
_HEAVY = frozenset(
    "Conv ConvTranspose DeformConv MatMul Gemm LSTM GRU RNN Einsum Attention STFT DFT "
    "LinearAttention FusedConv FusedGemm FusedMatMul FusedMatMulActivation NhwcFusedConv "
    "NhwcConv MultiHeadAttention GroupQueryAttention PagedAttention PackedMultiHeadAttention "
    "MatMulNBits MatMulBnb4 MoE ConvTransposeWithDynamicPads Rfft Irfft GemmFloat8 "
    "DecoderMaskedMultiHeadAttention".split()
)
_QUANTISED = frozenset(
    "ConvInteger QLinearConv QLinearConvTranspose MatMulInteger QLinearMatMul QGemm "
    "QAttention MatMulIntegerToFloat MatMulInteger16 DynamicQuantizeMatMul "
    "DynamicQuantizeLSTM DynamicQuantizeLinear QLinearAdd QLinearMul QLinearConcat "
    "QLinearSigmoid QLinearLeakyRelu QLinearAveragePool QLinearGlobalAveragePool "
    "QLinearReduceMean QLinearSoftmax QLinearWhere QMoE NhwcMaxPool".split()
)
_SHAPE = frozenset(
    "Shape Size Gather GatherND GatherElements Slice Concat Unsqueeze Squeeze Reshape Cast "
    "CastLike Range ConstantOfShape Constant Expand Tile Split Transpose Flatten Where Equal "
    "Greater GreaterOrEqual Less LessOrEqual Not And Or Xor Mod ScatterND ScatterElements "
    "Scatter Identity EyeLike Trilu OneHot ConcatFromSequence DepthToSpace SpaceToDepth "
    "BitShift".split()
)
_CONTROL = frozenset(
    "If Loop Scan Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct "
    "SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence".split()
)
_FEW = frozenset("NonMaxSuppression NonZero TopK Unique RoiAlign MaxRoiPool Compress".split())
_RANDOM = frozenset(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial".split()
)
_TEXT_DOMAINS = ("ai.onnx.ml", "ai.onnx.contrib")
_KINDS = {
    OperatorKind.HEAVY: _HEAVY,
    OperatorKind.QUANTISED: _QUANTISED,
    OperatorKind.SHAPE: _SHAPE,
    OperatorKind.CONTROL: _CONTROL,
    OperatorKind.FEW: _FEW,
    OperatorKind.RANDOM: _RANDOM,
}
# The quantised operators that are products.
_PRODUCTS = ("Conv", "MatMul", "Gemm", "Attention", "LSTM", "MoE")


def kind_of(operator: str, domain: str = "") -> OperatorKind:
    """The kind of an operator; an unknown one counts as elementwise."""
    if domain in _TEXT_DOMAINS or operator.startswith(("String", "RegexFull", "TfIdf", "Tokenizer")):
        return OperatorKind.TEXT
    return next((kind for kind, names in _KINDS.items() if operator in names), OperatorKind.PLAIN)


def is_heavy(operator: str) -> bool:
    """Whether it is compute-heavy, in floating point or in integers."""
    return operator in _HEAVY or (operator in _QUANTISED and any(name in operator for name in _PRODUCTS))
