"""Languages: their codes and names (`eng`, `en_US`, `English`), and a guess at that of a text.

Books, requests and datasets name languages by ISO 639-1, by ISO 639-2 (bibliographic or
terminological codes), by a locale, or in English. Source of the codes:
https://www.loc.gov/standards/iso639-2.
"""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache

# ISO 639-1, ISO 639-2 (two if the bibliographic code differs), English names.
_TABLE = """
aa aar Afar; ab abk Abkhazian; ae ave Avestan; af afr Afrikaans; ak aka Akan; am amh Amharic; an
arg Aragonese; ar ara Arabic; as asm Assamese; av ava Avaric; ay aym Aymara; az aze Azerbaijani;
ba bak Bashkir; be bel Belarusian; bg bul Bulgarian; bi bis Bislama; bm bam Bambara; bn ben
Bengali/Bangla; bo bod tib Tibetan; br bre Breton; bs bos Bosnian; ca cat Catalan/Valencian; ce
che Chechen; ch cha Chamorro; co cos Corsican; cr cre Cree; cs ces cze Czech; cu chu Church
Slavic/Old Church Slavonic; cv chv Chuvash; cy cym wel Welsh; da dan Danish; de deu ger German;
dv div Divehi/Dhivehi/Maldivian; dz dzo Dzongkha; ee ewe Ewe; el ell gre Greek/Modern Greek; en
eng English; eo epo Esperanto; es spa Spanish/Castilian; et est Estonian; eu eus baq Basque; fa
fas per Persian/Farsi; ff ful Fulah; fi fin Finnish; fj fij Fijian; fo fao Faroese; fr fra fre
French; fy fry Frisian/Western Frisian; ga gle Irish/Irish Gaelic; gd gla Scottish
Gaelic/Gaelic; gl glg Galician; gn grn Guarani; gu guj Gujarati; gv glv Manx; ha hau Hausa; he
heb Hebrew; hi hin Hindi; ho hmo Hiri Motu; hr hrv Croatian; ht hat Haitian Creole/Haitian; hu
hun Hungarian; hy hye arm Armenian; hz her Herero; ia ina Interlingua; id ind Indonesian; ie ile
Interlingue/Occidental; ig ibo Igbo; ii iii Sichuan Yi/Nuosu; ik ipk Inupiaq; io ido Ido; is isl
ice Icelandic; it ita Italian; iu iku Inuktitut; ja jpn Japanese; jv jav Javanese; ka kat geo
Georgian; kg kon Kongo; ki kik Kikuyu/Gikuyu; kj kua Kuanyama/Kwanyama; kk kaz Kazakh; kl kal
Greenlandic/Kalaallisut; km khm Khmer/Central Khmer; kn kan Kannada; ko kor Korean; kr kau
Kanuri; ks kas Kashmiri; ku kur Kurdish; kv kom Komi; kw cor Cornish; ky kir Kyrgyz/Kirghiz; la
lat Latin; lb ltz Luxembourgish; lg lug Ganda; li lim Limburgan/Limburger/Limburgish; ln lin
Lingala; lo lao Lao; lt lit Lithuanian; lu lub Luba-Katanga; lv lav Latvian; mg mlg Malagasy; mh
mah Marshallese; mi mri mao Maori; mk mkd mac Macedonian; ml mal Malayalam; mn mon Mongolian; mr
mar Marathi; ms msa may Malay; mt mlt Maltese; my mya bur Burmese; na nau Nauru; nb nob
Norwegian Bokmål/Bokmål; nd nde North Ndebele; ne nep Nepali; ng ndo Ndonga; nl nld dut
Dutch/Flemish; nn nno Norwegian Nynorsk/Nynorsk; no nor Norwegian; nr nbl South Ndebele; nv nav
Navajo/Navaho; ny nya Chichewa/Chewa/Nyanja; oc oci Occitan/Provençal; oj oji Ojibwa; om orm
Oromo; or ori Odia/Oriya; os oss Ossetian/Ossetic; pa pan Punjabi/Panjabi; pi pli Pali; pl pol
Polish; ps pus Pashto/Pushto; pt por Portuguese; qu que Quechua; rm roh Romansh; rn run Rundi;
ro ron rum Romanian/Moldavian/Moldovan; ru rus Russian; rw kin Kinyarwanda; sa san Sanskrit; sc
srd Sardinian; sd snd Sindhi; se sme Northern Sami; sg sag Sango; si sin Sinhala/Sinhalese; sk
slk slo Slovak; sl slv Slovenian; sm smo Samoan; sn sna Shona; so som Somali; sq sqi alb
Albanian; sr srp Serbian; ss ssw Swati; st sot Southern Sotho/Sotho/Sesotho; su sun Sundanese;
sv swe Swedish; sw swa Swahili; ta tam Tamil; te tel Telugu; tg tgk Tajik; th tha Thai; ti tir
Tigrinya; tk tuk Turkmen; tl tgl Tagalog/Filipino; tn tsn Tswana; to ton Tonga/Tongan; tr tur
Turkish; ts tso Tsonga; tt tat Tatar; tw twi Twi; ty tah Tahitian; ug uig Uighur/Uyghur; uk ukr
Ukrainian; ur urd Urdu; uz uzb Uzbek; ve ven Venda; vi vie Vietnamese; vo vol Volapük; wa wln
Walloon; wo wol Wolof; xh xho Xhosa; yi yid Yiddish; yo yor Yoruba; za zha Zhuang/Chuang; zh zho
chi Chinese; zu zul Zulu
"""
# Withdrawn codes, codes of variants, and country codes that are used as language codes.
_ALIASES = """
zh cmn yue cn mandarin cantonese 中文; nb nob; nn nno; ar arb العربية; fa pes; tl fil; sw swh; ms
zsm; et ekk; lv lvs; he iw; id in; yi ji; jv jw; ro mo mol; hr scr; sr scc sh; ja jp 日本語; cs cz
čeština česky; da dk; uk ua; de deutsch; es español; fr français; it italiano; nl nederlands; pt
português; pl polski; hu magyar; tr türkçe; ru русский; hi हिन्दी; ko 한국어
"""
# ISO 639-2's undetermined, multiple, no linguistic content and uncoded; and words for these.
_NOT_STATED = frozenset(["", *"x und mul zxx mis unknown undefined undetermined none multiple".split()])
_QUALIFIERS = frozenset(
    "american australian austrian brazilian british canadian european indian latin mexican modern "
    "simplified standard swiss traditional uk us".split()
)
_TAG = re.compile(r"[a-z]{2}(?:-[a-z0-9]+)*", re.I)
_ENTRY = re.compile(r"([a-z]{2})((?: [a-z]{3})+) ([^;]+?)\s*(?:;|$)")


@cache
def _codes() -> dict[str, str]:
    codes = dict[str, str]()
    for code, *aliases in map(str.split, _ALIASES.split(";")):
        codes |= dict.fromkeys(aliases, code)
    for code, threes, names in _ENTRY.findall(" ".join(_TABLE.split())):
        codes |= dict.fromkeys([code, *threes.split()], code)
        codes |= dict.fromkeys((" ".join(language.split()).casefold() for language in names.split("/")), code)
    return codes


def is_code(name: str) -> bool:
    """Whether a name is a code of ISO 639-1."""
    return len(name) == 2 and name in _codes().values()


# Bounded, because callers choose the names.
@lru_cache(1024)
def code_of(name: str) -> str:
    """The ISO 639-1 code of a language as people write it: `en`, `en-US`, `en_US.UTF-8`, `eng`,
    `English`, `American English`.

    Returns:
        "" if the language is not stated (`und`, `mul`); the first of several (`en; de`). A name or
        code that is not in the table is returned in lower case, without its region.
    """
    for part in re.split(r"[;,/|&+]| and ", name.casefold()):
        if code := _code(part):
            return code
    return ""


def _code(name: str) -> str:
    tag = re.sub(r"\(.*|[.@].*", "", name).replace("_", "-")
    tag = " ".join(tag.split())
    language = tag.partition("-")[0].strip()
    if language in _NOT_STATED or "qaa" <= language <= "qtz":
        return ""
    unqualified = " ".join(word for word in language.split() if word not in _QUALIFIERS)
    codes = _codes()
    return codes.get(tag) or codes.get(language) or codes.get(unqualified) or language


def short_code(language: str) -> str:
    """The code of a language without its region: `zh` of `zh-CN`, `de` of `deu`."""
    return code_of(language) or language.lower().split("-")[0]


def tag_of(name: str) -> str:
    """As `code_of`, but keeps a region (`en-us`). A tag that already begins with its ISO 639-1
    code, and a name that is not in the table, are returned unchanged."""
    name = name.strip()
    code = code_of(name)
    if code not in _codes().values() or (_TAG.fullmatch(name) and name[:2].lower() == code):
        return name if code else ""
    locale = re.fullmatch(r"[a-z]{2,3}((?:[-_][a-z0-9]{2,8})*)(?:[.@].*)?", name, re.I)
    return code + locale[1].replace("_", "-").lower() if locale else code


# English names by ISO 639-1 code.
ENGLISH_NAMES = {
    "ar": "Arabic",
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "hi": "Hindi",
    "hu": "Hungarian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "tr": "Turkish",
    "zh": "Chinese",
}

# Frequent words that only one of these languages has.
FUNCTION_WORDS = {
    "en": "the and of that he she it you for with his her they had not are this have be at my",
    "de": "der das und ist nicht ich ein eine mit auf sie er wir dem im für auch sich es wird",
    "fr": "le les et est des dans qui il elle nous vous je pas pour sur du au ce avec sont",
    "es": "el los las y con por está pero muy lo su más del este hay fue ella como mi son",
    "it": "di che è non sono gli della nel ho mi più anche ma questo alla le i ha dei una",
    "pt": "o os um uma não do da em com ao mas eu ele muito você foi pela são isso dos",
    "nl": "het een van niet dat op zijn voor hij zij aan te ik wij maar naar ook er deze bij",
    "pl": "w nie się jest że jak po czy są był od przez tak dla ale jego już było tym co",
    "cs": "je se že jsem v byl si ve jako jsou tak ale při bylo už nebo která také aby pro",
    "hu": "az és hogy nem egy van ez volt meg már csak mint még ha kell után amikor",
    "tr": "ve bir bu için çok var ben değil gibi daha ne olarak kadar sonra ama mi her biz",
}
_WORD = re.compile(r"[^\W\d_]+")
_MIN_WORDS = 50
# The share of words that are frequent only in the other language, and the share of the stated language
# relative to that.
_MIN_SHARE, _MAX_RELATIVE_SHARE = 0.06, 0.25


def _words_only_in(code: str) -> frozenset[str]:
    others = {word for other, words in FUNCTION_WORDS.items() if other != code for word in words.split()}
    return frozenset(FUNCTION_WORDS[code].split()) - others


def other_language(texts: Iterable[str], language: str) -> str | None:
    """The language of the texts if it clearly differs from `language`; None if it does not, or if
    the texts have fewer than 50 words. Knows languages in Latin letters only."""
    stated = short_code(language)
    words = Counter(word for text in texts for word in _WORD.findall(text.lower()))
    if stated not in FUNCTION_WORDS or words.total() < _MIN_WORDS:
        return None
    shares = {
        code: sum(words[word] for word in unique_words) / words.total()
        for code in FUNCTION_WORDS
        if (unique_words := _words_only_in(code))
    }
    best = max(shares, key=lambda code: shares[code])
    if shares[best] < _MIN_SHARE or shares[stated] > _MAX_RELATIVE_SHARE * shares[best]:
        return None
    return best
