"""Superscripts keep their meaning, numbers of notes are dropped, and simple formulas are read."""

import pytest

from extras.books.formats.html_text import page_of


def text_of(body: str) -> str:
    return " ".join(block.text for block in page_of(f"<body>{body}</body>", "a.xhtml").blocks)


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("There were 10<sup>6</sup> cells.", "There were 10⁶ cells."),
        ("3 × 10<sup>8</sup> and 2<sup>10</sup> m", "3 × 10⁸ and 2¹⁰ m"),
        ("10<sup>-6</sup> or 10<sup>−9</sup> m", "10⁻⁶ or 10⁻⁹ m"),
        ("5 m<sup>2</sup>, 9 km<sup>2</sup> and 2 in<sup>2</sup>", "5 m², 9 km² and 2 in²"),
        ("m/s<sup>2</sup> and s<sup>-1</sup>", "m/s² and s⁻¹"),
        ("x<sup>2</sup> + a<sup>2</sup> = c<sup>2</sup>", "x² + a² = c²"),
        ("E = mc<sup>2</sup>, πr<sup>2</sup>", "E = mc², πr²"),
        ("(a + b)<sup>2</sup> and sin<sup>2</sup> x", "(a + b)² and sin² x"),
        ("2<sup>n</sup>, 2<sup>n+1</sup>", "2^n, 2^(n+1)"),
        ("H<sub>2</sub>O and CO<sub>2</sub>, x<sub>1</sub>", "H₂O and CO₂, x₁"),
        ("a<sub>n</sub> and log<sub>10</sub> x", "a n and log₁₀ x"),
        ("1<sup>1</sup>/<sub>2</sub> cups", "1½ cups"),
        ("<sup>3</sup>&frasl;<sub>4</sub> of it", "¾ of it"),
        ("<sup>1</sup>/3 of it", "⅓ of it"),
        ("2<sup>5</sup>/<sub>16</sub> inches", "2 5/16 inches"),
        (
            "the 1<sup>st</sup>, 4<sup>th</sup>, M<sup>lle</sup>, N<sup>o</sup> 5, 1<sup>er</sup>",
            "the 1st, 4th, Mlle, No 5, 1er",
        ),
        (
            '10<span class="superscript">6</span> and 10<span style="vertical-align: super">9</span>',
            "10⁶ and 10⁹",
        ),
        ('H<span class="subscript">2</span>O', "H₂O"),
        ("dated by carbon <sup>14</sup>C", "dated by carbon 14C"),
        ("<table><tr><td>10<sup>6</sup></td><td>m<sup>2</sup></td></tr></table>", "10⁶, m²"),
    ],
)
def test_superscripts_keep_their_meaning(markup, text):
    body = markup if markup.startswith("<table") else f"<p>{markup}</p>"
    assert text_of(body) == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("He said so.<sup>3</sup> And again.", "He said so. And again."),
        ("“No,”<sup>12</sup> he said<sup>13</sup>, and left.", "“No,” he said, and left."),
        ("the king<sup>4</sup> of it<sup>5</sup>", "the king of it"),
        ("in 1984<sup>6</sup> and 1,200<sup>7</sup> men", "in 1984 and 1,200 men"),
        ("so.<sup>3,4</sup> Then<sup>5–7</sup> more", "so. Then more"),
        ('again.<sup><a href="#n4">4</a></sup> It', "again. It"),
        ('again<a href="#n4"><sup>4</sup></a> it', "again it"),
        ("(see below)<sup>8</sup> it", "(see below) it"),
        ("<sup>16</sup>For so it was. <sup>17</sup>He left.", "For so it was. He left."),
        ("He said so.³ And again¹².", "He said so. And again."),
        ("5 °C<sup>7</sup>, 50%<sup>8</sup>, CO<sub>2</sub><sup>9</sup>", "5 °C, 50%, CO₂"),
        ("by<sup>2</sup> the<sup>3</sup> I<sup>4</sup> went", "by the I went"),
    ],
)
def test_numbers_of_notes_are_dropped(markup, text):
    assert text_of(f"<p>{markup}</p>") == text


M = '<math xmlns="http://www.w3.org/1998/Math/MathML">'


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (f"{M}<mi>m</mi><mo>=</mo><mn>5</mn></math>", "m = 5"),
        (
            f"{M}<mrow><mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup></mrow></math>",
            "E = m c²",
        ),
        (
            "<m:math><m:msup><m:mn>10</m:mn><m:mrow><m:mo>−</m:mo><m:mn>6</m:mn></m:mrow></m:msup></m:math>",
            "10⁻⁶",
        ),
        (f"{M}<msub><mi>H</mi><mn>2</mn></msub><mi>O</mi></math>", "H₂ O"),
        (f"{M}<mfrac><mn>1</mn><mn>2</mn></mfrac></math>", "½"),
        (f"{M}<mi>a</mi><mo>≤</mo><msqrt><mn>2</mn></msqrt></math>", "a ≤ √2"),
        (f"{M}<msqrt><mi>x</mi><mo>+</mo><mn>1</mn></msqrt></math>", "√(x + 1)"),
        (f"{M}<mi>f</mi><mo>&#8289;</mo><mo>(</mo><mi>x</mi><mo>)</mo></math>", "f (x)"),
        (f"{M}<semantics><mi>x</mi><annotation>\\frac</annotation></semantics></math>", "x"),
        ('<math alttext="the sum of all"><munderover><mo>∑</mo></munderover></math>', "the sum of all"),
    ],
)
def test_a_simple_formula_is_read(formula, text):
    page = page_of(f"<body><p>The mass {formula} was measured.</p></body>", "a.xhtml")
    assert [block.text for block in page.blocks] == [f"The mass {text} was measured."]
    assert page.num_unread_formulas == 0


def test_a_full_stop_follows_a_formula_without_a_space():
    assert text_of(f"<p>It is {M}<mi>x</mi></math>. Then {M}<mi>y</mi></math> is.</p>") == (
        "It is x. Then y is."
    )


def test_other_formulas_are_counted():
    root = "<math alttext='\\sqrt{2}'><mroot><mn>2</mn><mn>3</mn></mroot></math>"
    deep = "<math>" + "<mrow>" * 9000 + "</math>"
    open_ones = f"<p>{M}<mi>x</p>y.{M}<mi>z<p>End.</p>"
    page = page_of(f"<body><p>It is {root} or {deep} here.</p>{open_ones}</body>", "a.xhtml")
    assert [block.text for block in page.blocks] == ["It is or here.", "x", "y. z", "End."]
    assert page.num_unread_formulas == 2


def test_ruby_is_read_only_where_its_base_is_a_picture():
    assert (
        text_of(
            "<p>He wrote <ruby>Tokyo<rt>tow kyow</rt></ruby> and <ruby><rb><img alt='' src='g.gif'/>"
            "</rb><rp>(</rp><rt>ku</rt><rp>)</rp></ruby> down.</p>"
        )
        == "He wrote Tokyo and ku down."
    )
