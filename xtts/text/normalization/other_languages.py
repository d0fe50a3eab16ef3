"""Rules for Turkish, Hungarian, Arabic and Hindi."""

import re

from xtts.text.normalization import numerals
from xtts.text.normalization.clock import ClockTime
from xtts.text.normalization.language_rules import LanguageRules
from xtts.text.normalization.numbers import (
    CLEAR_GROUPS,
    Noun,
    WrittenNumber,
    marks,
    moneys,
    nouns,
    pairs,
    scale_words,
    words,
)
from xtts.text.normalization.numerals import ROMAN
from xtts.text.normalization.scores import follows_label


class TurkishRules(LanguageRules):
    """Turkish: no plural after a numeral, and per cent precedes the number."""

    code = "tr"
    spaced_groups = CLEAR_GROUPS
    cardinals = {"m": "cardinal"}
    point, minus, plus, to = "virgül", "eksi", "artı", "ile"
    zero_minute = "sıfır "
    clock_words = r"(?<![0-9]\s)[Ss]aat"
    # 2. before a word, or before a name that is numbered; 2'nci
    ordinal_mark = re.compile(
        r"(?<![\w.,])([0-9]{1,4})(?:['’]?(?:[ıiuü]?nc[ıiuü])(?!\w)|\.(?=\s[a-zçğıöşü])"
        r"|\.(?=\s(?:Dünya Savaş|Lig(?!\w)|Yüzyıl|Cadde|Sokak|Bölge|Ordu|Mehmed|Abdülhamid|Mahmud)))"
    )
    # 2015'te is iki bin on beşte.
    suffix = re.compile(r"([0-9€$%])['’]()(?=(?![ıiuü]?nc)[a-zçğıöşü])")
    calling_words = "tel|telefon|numaram|numara|numarası|ara|arayın|cep|faks"
    months = words("""Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık""")
    short_months = "Oca* Şub Mar* Nis May* Haz Tem Ağu Eyl Eki Kas* Ara*"
    percent = Noun.of("yüzde")
    scales = ("bin", "milyon", "milyar", "trilyon")
    thousands = ("bin",)
    scale_marks = marks("mn mn. mlyn = 6, mr mlr mlyr mia = 9, trln = 12")
    scale_nouns = scale_words("milyon, milyar, trilyon")
    mixed, mixed_half, slash = "{} tam {}", "{} buçuk", "bölü"
    number_sign = "numara"
    powers = ("kare", "küp", "üzeri {}")
    _LOCATIVES = words("üçte dörtte beşte altıda yedide sekizde dokuzda onda")
    currencies = moneys("""₺ TL TRY = lira; kuruş, € EUR = euro; sent, $ US$ USD = dolar; sent,
        £ = sterlin; peni""")
    units = nouns("""kg = kilogram, g gr = gram, mg = miligram, t = ton, km = kilometre, m = metre,
        cm = santimetre, mm = milimetre, km/sa km/s km/h = kilometre saat, m² = metrekare,
        m³ = metreküp, l lt = litre, ml = mililitre, sa = saat, dk = dakika, sn = saniye,
        °C ℃ = derece, ° = derece, kW = kilovat, MB = megabayt, GB = gigabayt""")
    abbreviations = pairs("""vb. = ve benzeri, vs. = vesaire, örn. = örneğin, Prof. = profesör,
        Doç. = doçent, Av. = avukat, No.# = numara, No: = numara, Cad. = caddesi, Sok. = sokak,
        Mah. = mahallesi, yy. = yüzyıl, M.Ö. = milattan önce, M.S. = milattan sonra, bkz. = bakınız,
        s.# = sayfa, T.C. = Türkiye Cumhuriyeti, tel. = telefon""")
    fractions = {"½": "yarım", "¼": "çeyrek", "¾": "dörtte üç"}
    roman_ordinal = re.compile(rf"(?<!\w)({ROMAN})\.\s(?=yüzyıl|yy\.|binyıl)")

    def part_words(self, top: int, bottom: int) -> str:
        """Üçte iki."""
        if 3 <= bottom <= 10 and (top, bottom) not in ((1, 4), (3, 4)):
            return f"{self._LOCATIVES[bottom - 3]} {self.cardinal(top)}"
        return super().part_words(top, bottom)

    def read_roman(self, text: str) -> str:
        """İkinci Mehmed."""
        return super().read_roman(
            _TURKISH_RULER.sub(lambda m: f"{self.ordinal(numerals.roman_value(m[1]))} ", text)
        )

    def percentage_words(self, amount: str) -> str:
        """Yüzde on dört."""
        sign, first, last = self.parse_amount(amount)
        range_end = f" {self.to} {self.number_words(last)}" if last else ""
        return f"{sign} {self.percent.one} {self.number_words(first)}{range_end}".strip()


# Before a ruler's name.
_TURKISH_RULER = re.compile(rf"(?<![\w.])({ROMAN})\.\s(?=[A-ZÇİÖŞÜ][a-zçğıöşü])")


class HungarianRules(LanguageRules):
    """Hungarian: no plural after a numeral; numbers and symbols take suffixes."""

    code = "hu"
    # Kettő alone, két before a noun.
    cardinals = {"m": "cardinal", "noun": "cardinal-initial"}
    ordinals = {"m": "ordinal"}
    point, minus, plus, to = "egész", "mínusz", "plusz", "-"
    minute_form, second_form = "{} perc", " {} másodperc"
    # `read_dates` reads those with the name of the month.
    date_form, full_date_form, day_mark = "{month} {day}", "{year} {month} {day}", "(?!)"
    day_may_follow_month = True
    # Also after symbols: 5 €-t is öt eurót.
    suffix = re.compile(r"([0-9€$£%]|Ft|kg|km|°C|cm)-((?!j?[áaeé]n?(?!\w))[a-záéíóöőúüű]{1,6})(?!\w)")
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,4})\.(?=\s[a-záéíóöőúüű])")
    calling_words = "tel|telefon|hívja|hívj|hívjon|szám|mobil|fax|telefonszám"
    months = words("""január február március április május június július augusztus szeptember
        október november december""")
    short_months = "jan feb/febr márc ápr máj jún júl aug szept/szep okt nov dec"
    percent = Noun.of("százalék")
    scales = ("ezer", "millió", "milliárd", "billió")
    thousands = ("ezer",)
    scale_marks = marks("Mio mio = 6, Mrd Mrd. mrd mrd. md Md = 9")
    money_marks = marks("e = 3")
    scale_nouns = scale_words("millió, milliárd, billió")
    denominators = "harmad ötöd hatod heted nyolcad kilenced tized"
    slash, mixed, mixed_half = "per", "{} és {}", "{} és fél"
    powers = ("a négyzeten", "a köbön", "a {} hatványon")
    currencies = moneys("""Ft HUF = forint, € EUR = euró; cent, $ US$ USD = dollár; cent,
        £ = font; penny""")
    units = nouns("""kg = kilogramm, g = gramm, dkg = dekagramm, mg = milligramm, t = tonna,
        km = kilométer, m = méter, cm = centiméter, mm = milliméter, km/h km/ó = kilométer per óra,
        m² = négyzetméter, m³ = köbméter, l = liter, dl = deciliter, ml = milliliter, perc = perc,
        mp = másodperc, °C ℃ = celsius fok, ° = fok, kW = kilowatt, MB = megabájt, GB = gigabájt""")
    abbreviations = pairs("""pl. = például, stb. = és a többi, kb. = körülbelül, ún. = úgynevezett,
        ill. = illetve, u. = utca, út. = út, tel. = telefon, Prof. = professzor, ifj. = ifjabb,
        id. = idősebb, Kft. = káefté, Zrt. = zéerté, i. e. = időszámításunk előtt,
        i. sz. = időszámításunk szerint, db = darab, old. = oldal, özv. = özvegy, sz. = szám""")
    fractions = {"½": "fél", "¼": "negyed", "¾": "háromnegyed"}
    roman_ordinal = re.compile(rf"(?<!\w)({ROMAN})\.\s(?=[a-záéíóöőúüű])")
    _DENOMINATORS_OF_DECIMALS = {1: "tized", 2: "század", 3: "ezred"}

    def counted_words(self, amount: str, noun: Noun) -> str:
        """Két kilogramm."""
        sign, first, last = self.parse_amount(amount)
        if last:
            return f"{sign} {self.number_words(first)} {self._number_before_noun(last)} {noun.one}".strip()
        return f"{sign} {self._number_before_noun(first)} {noun.one}".strip()

    def _number_before_noun(self, written: str) -> str:
        """A number before a noun: két, tizenkét."""
        return _counting_form(self.number_words(written))

    def _read_number(self, match: re.Match[str]) -> str:
        """Két óra, tizenkét hónap."""
        spoken = super()._read_number(match)
        counts = _HUNGARIAN_NOUN_AFTER.match(match.string, match.end()) and not follows_label(match)
        return _counting_form(spoken) if counts else spoken

    def part_words(self, top: int, bottom: int) -> str:
        """Kétharmad."""
        words = super().part_words(top, bottom)
        if bottom not in self.DENOMINATORS:
            return words
        return f"{self._number_before_noun(str(top))}{words.split()[-1]}"

    def mixed_words(self, number: int, whole: str, top: int, bottom: int) -> str:
        """Két és fél."""
        return super().mixed_words(number, self._number_before_noun(str(number)), top, bottom)

    def decimal_words(self, number: WrittenNumber) -> str:
        """Tizenkettő egész öt tized."""
        part = self._DENOMINATORS_OF_DECIMALS.get(len(number.fraction))
        if part is None or not int(number.fraction):
            return f"{self.integer_words(number.whole)} egész {self.digits(number.fraction)}"
        return f"{self.integer_words(number.whole)} egész {self.cardinal(int(number.fraction))} {part}"

    def day(self, number: int, before: str = "") -> str:
        """Ötödike, with the possessive ending of dates."""
        if number == 1:
            return "elseje"
        ordinal = self.ordinal(number)
        return ordinal + ("a" if set(ordinal[-4:]) & set("aáoóuú") else "e")

    def read_dates(self, text: str) -> str:
        """2024. március 5., 2024.03.05."""
        text = _HUNGARIAN_NUMERIC_DATE.sub(self._read_year_first_date, text)
        text = _HUNGARIAN_DATE.sub(self._read_named_date, text)
        return super().read_dates(text)

    def _read_year_first_date(self, match: re.Match[str]) -> str:
        return (self.date_words_of(match, *match.group(3, 2, 1)) or match[0]) + self._final_stop(match)

    def _read_named_date(self, match: re.Match[str]) -> str:
        month = {name: str(place) for place, name in enumerate(self.months, start=1)}
        spoken = self.date_words_of(match, match[3], month.get(match[2].casefold(), "0"), match[1])
        if not spoken:
            return match[0]
        if not match[4]:
            return spoken + self._final_stop(match)
        # 5-én: ötödikén, 1-jén: elsején
        ending = match[4].lstrip("-").removeprefix("j")[1:]
        last = {"a": "á", "e": "é"}[spoken[-1]] if ending else spoken[-1]
        return spoken[:-1] + last + ending

    def _final_stop(self, match: re.Match[str]) -> str:
        return "." if match[0].endswith(".") and match.end() == len(match.string) else ""

    def read_roman(self, text: str) -> str:
        """Második Lajos."""
        return super().read_roman(
            _HUNGARIAN_RULER.sub(lambda m: f"{self.ordinal(numerals.roman_value(m[1]))} ", text)
        )

    def hours(self, hour: int) -> str:
        """Tizennégy óra."""
        return f"{self._number_before_noun(str(hour))} óra"

    def read_ordinals(self, text: str) -> str:
        """2. before a word; 5-7. before a word."""
        text = _HUNGARIAN_RANGE.sub(lambda m: f"{self.cardinal(int(m[1]))} {self.ordinal(int(m[2]))}", text)
        return super().read_ordinals(text)


def _counting_form(spoken: str) -> str:
    """A number in the form before a noun: két for kettő."""
    return spoken.removesuffix("kettő") + "két" if spoken.endswith("kettő") else spoken


_HUNGARIAN_NUMERIC_DATE = re.compile(
    r"(?<![\w.,-])([12][0-9]{3})[.]\s?([0-9]{1,2})[.]\s?([0-9]{1,2})(?:\.(?!\w)|(?![\w.]))"
)
_HUNGARIAN_DATE = re.compile(
    r"(?<![\w,])(?:([12][0-9]{3})\.\s)?([a-zA-Záéíóöőúüű]{5,11})\s([0-9]{1,2})(?:\.|(-j?[aáeé]n?))(?!\w)"
)
# Before a ruler's name.
_HUNGARIAN_RULER = re.compile(rf"(?<![\w.])({ROMAN})\.\s(?=[A-ZÁÉÍÓÖŐÚÜŰ][a-záéíóöőúüű])")
# A lower-case word that a number may count: no conjunction, no postposition, no verb, no word of a formula.
_HUNGARIAN_NOUN_AFTER = re.compile(
    r"\s(?!(?:és|vagy|meg|az?|is|de|ha|hogy|mint|sem|se|nem|csak|már|még|pedig|illetve|valamint|után|előtt|"
    r"alatt|felett|fölött|között|közül|körül|helyett|nélkül|mellett|miatt|szerint|felé|van|volt|lesz|lett|kell|"
    r"maradt|jött|ment|közötti|feletti|alatti|plusz|mínusz|egyenlő|szor|osztva|per|nagyobb|kisebb|"
    r"körülbelül)(?!\w))[a-záéíóöőúüű]{2}"
)
_HUNGARIAN_RANGE = re.compile(r"(?<![\w.,])([0-9]{1,4})[-–]([0-9]{1,4})\.(?=\s[a-záéíóöőúüű])")


class ArabicRules(LanguageRules):
    """Modern Standard Arabic as spoken: masculine numerals in pausal form."""

    code = "ar"
    spaced_groups = CLEAR_GROUPS
    thousands_separator = ","
    point, minus, plus, to = "فاصلة", "ناقص", "زائد", "إلى"
    calling_words = "اتصل|هاتف|تلفون|رقم|جوال"
    months = words("""يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر""")
    percent = Noun.of("في المئة")
    scales = ("ألف", "آلاف", "مليون", "ملايين", "مليار", "مليارات", "تريليون")
    scale_nouns = scale_words("مليون/ملايين/مليون, مليار/-ات/مليار, تريليون/-ات/تريليون")
    slash, mixed, mixed_half = "على", "{} و{}", "{} ونصف"
    powers = ("تربيع", "تكعيب", "أس {}")
    # The named denominators, a third to a tenth: one, two, and more of them.
    _DENOMINATOR_FORMS = words("""ثلث/ثلثان/أثلاث خمس/خمسان/أخماس سدس/سدسان/أسداس سبع/سبعان/أسباع
        ثمن/ثمنان/أثمان تسع/تسعان/أتساع عشر/عشران/أعشار""")
    currencies = moneys("""$ US$ USD = دولار, € EUR = يورو, £ = جنيه""")
    units = nouns("""كغ كجم كغم kg = كيلوغرام/-ات/-ا, غ غم g = غرام/-ات/-ا, كم km = كيلومتر/-ات/-ا,
        م m = متر/أمتار/-ا, سم cm = سنتيمتر/-ات/-ا, مم mm = مليمتر/-ات/-ا,
        كم/س km/h = كيلومتر/-ات/-ا + في الساعة, ل = لتر/-ات/-ا, °C ℃ °م = درجة/درجات/درجة + مئوية f,
        ° = درجة/درجات/درجة f""")
    abbreviations = {"د.": "دكتور", "أ.": "أستاذ", "م.": "مهندس", "إلخ.": "إلى آخره", "ص.#": "صفحة"}
    fractions = {"½": "نصف", "¼": "ربع", "¾": "ثلاثة أرباع"}
    # CLDR's spelling and ours: it has a wrong hamza in the first two, and splits the hundreds.
    corrections = tuple(
        pairs("""إثن = اثن, إحدى عشر = أحد عشر, ثلاثة مائة = ثلاثمائة,
        أربعة مائة = أربعمائة, خمسة مائة = خمسمائة, ستة مائة = ستمائة,
        سبعة مائة = سبعمائة, ثمانية مائة = ثمانمائة, تسعة مائة = تسعمائة""").items()
    )
    _HOURS = (
        "الثانية عشرة",
        "الواحدة",
        "الثانية",
        "الثالثة",
        "الرابعة",
        "الخامسة",
        "السادسة",
        "السابعة",
        "الثامنة",
        "التاسعة",
        "العاشرة",
        "الحادية عشرة",
    )

    def part_words(self, top: int, bottom: int) -> str:
        """A third, two thirds in the dual, three eighths."""
        if bottom not in self.DENOMINATORS:
            return super().part_words(top, bottom)
        one, two, many = self._DENOMINATOR_FORMS[self.DENOMINATORS.index(bottom)].split("/")
        return {1: one, 2: two}.get(top) or f"{self.cardinal(top)} {many}"

    def noun_form(self, number: WrittenNumber, noun: Noun) -> str:
        """Plural after 3 to 10, singular accusative after 11 to 99, else singular."""
        last = number.value % 100
        if number.fraction or last in (0, 1, 2):
            return noun.one
        return noun.few if last <= 10 else noun.many

    def time(self, clock_time: ClockTime) -> str:
        """The hour is a definite feminine ordinal."""
        spoken = self._HOURS[clock_time.hour % 12]
        parts = {15: "والربع", 30: "والنصف"}
        if clock_time.minute:
            spoken += f" {parts.get(clock_time.minute) or f'و{self.cardinal(clock_time.minute)} دقيقة'}"
        return spoken


class HindiRules(LanguageRules):
    """Hindi, with thousands in Indian or Western grouping."""

    code = "hi"
    spaced_groups = CLEAR_GROUPS
    # The anusvara of the modern standard.
    corrections = (("पन्द्रह", "पंद्रह"),)
    cardinals = {"m": "cardinal"}
    ordinals = {"m": "ordinal-masculine", "f": "ordinal-feminine"}
    thousands_separator = ","
    point, minus, plus, to = "दशमलव", "माइनस", "प्लस", "से"
    spells_decimals, hundreds_form = True, "{} सौ {}"
    # Four digits before में and similar words, or after सन्
    year_marks = (re.compile(r"((?:सन्\s|साल\s)?)(?<![\w.,])(1[1-9][0-9]{2})(?=\s(?:में|के|से|की|का|तक|ई))"),)
    # 10:30 बजे
    clock = re.compile(r"(?<![\d:.,])([0-9]{1,2}):([0-9]{2})\sबजे(?!\w)")
    # 2रा, 5वाँ
    ordinal_mark = re.compile(
        r"(?<![\w.,])([0-9]{1,4})(वाँ|वां|वीं|वें|वा|वी|ला|ली|रा|री|था|थी|ठा|ठी)(?![\u0900-\u097f])"
    )
    feminine_marks = ("वीं", "वी", "ली", "री", "थी", "ठी")
    calling_words = "फ़ोन|फोन|मोबाइल|कॉल|नंबर"
    months = words("""जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर""")
    short_months = "जन फ़र/फर - अप्रै - - जुल अग* सित अक्टू नव* दिस"
    percent = Noun.of("प्रतिशत")
    scales = ("हज़ार", "हजार", "लाख", "करोड़", "अरब", "खरब", "लाख करोड़")
    scale_marks = marks("lakh lac = 5, crore crores cr Cr cr. Cr. = 7")
    slash, mixed = "बटा", "{} सही {}"
    number_sign = "नंबर"
    powers = ("का वर्ग", "का घन", "की घात {}")
    currencies = moneys("""₹ INR रु. = रुपया/रुपये; पैसा/पैसे, $ US$ USD = डॉलर; सेंट, € EUR = यूरो; सेंट,
        £ = पाउंड; पेंस""")
    units = nouns("""kg किग्रा = किलोग्राम, g ग्रा = ग्राम, km किमी कि.मी. = किलोमीटर, m मी = मीटर,
        cm सेमी = सेंटीमीटर, mm मिमी = मिलीमीटर, km/h किमी/घंटा = किलोमीटर प्रति घंटा, l ली = लीटर,
        ml = मिलीलीटर, °C ℃ = डिग्री सेल्सियस, ° = डिग्री, GB = गीगाबाइट, MB = मेगाबाइट""")
    abbreviations = pairs("""डॉ. = डॉक्टर, प्रो. = प्रोफ़ेसर, श्री. = श्री, कु. = कुमारी, आदि. = आदि,
        ई.पू. = ईसा पूर्व, पृ.# = पृष्ठ, सं.# = संख्या""")
    fractions = {"½": "आधा", "¼": "चौथाई", "¾": "पौन"}

    def read(self, text: str) -> str:
        """Ordinals come before units: 1ली is पहली, not a litre."""
        return super().read(self.read_ordinals(numerals.plain_digits(text)))

    def ordinal(self, number: int, gender: str = "m") -> str:
        """CLDR lacks the nasal vowel of इक्कीसवीं."""
        words = super().ordinal(number, gender)
        return f"{words}ं" if gender == "f" and words.endswith("वी") else words

    def _read_ordinal(self, match: re.Match[str]) -> str:
        """In the gender, or the oblique case, of the ending."""
        if match[2] in ("ला", "ली") and match[1] != "1":
            return match[0]  # litres
        words = super()._read_ordinal(match)
        return words.replace("वाँ", "वें") if match[2] == "वें" else words

    def part_words(self, top: int, bottom: int) -> str:
        """दो तिहाई."""
        return f"{self.cardinal(top)} तिहाई" if bottom == 3 else super().part_words(top, bottom)

    def mixed_words(self, number: int, whole: str, top: int, bottom: int) -> str:
        """ढाई, साढ़े तीन, सवा दो, पौने तीन."""
        name = {(1, 2, 1): "डेढ़", (1, 2, 2): "ढाई", (1, 4, 1): "सवा"}.get((top, bottom, number))
        if name:
            return name
        if (top, bottom) == (3, 4):
            return f"पौने {self.cardinal(number + 1)}"
        before = {(1, 2): "साढ़े", (1, 4): "सवा"}.get((top, bottom))
        return f"{before} {whole}" if before else super().mixed_words(number, whole, top, bottom)

    def read_times(self, text: str) -> str:
        """साढ़े दस बजे."""
        halves = {1: "डेढ़", 2: "ढाई"}
        return super().read_times(
            _HINDI_HALF.sub(
                lambda m: f"{halves.get(int(m[1])) or f'साढ़े {self.cardinal(int(m[1]))}'} बजे", text
            )
        )

    def time(self, clock_time: ClockTime) -> str:
        """दस बजकर पैंतालीस मिनट."""
        if not clock_time.minute:
            return f"{self.cardinal(clock_time.hour)} बजे"
        return f"{self.cardinal(clock_time.hour)} बजकर {self.cardinal(clock_time.minute)} मिनट"


# 10:30 बजे
_HINDI_HALF = re.compile(r"(?<![\d:.,])([01]?[0-9]|2[0-4]):30\sबजे(?!\w)")
