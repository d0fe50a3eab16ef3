"""How Turkish, Hungarian, Arabic and Hindi are read."""

import re
from functools import cached_property

from xtts.text.normalization.language_rules import (
    LanguageRules,
    Money,
    Noun,
    Step,
    WrittenNumber,
    nouns,
)
from xtts.text.normalization.spelling import spell


class TurkishRules(LanguageRules):
    """Turkish: no plural behind a numeral, per cent stands before it."""

    code = "tr"
    cardinals = {"m": "cardinal"}
    point, minus, plus, to = "virgül", "eksi", "artı", "ile"
    spaced_groups = False
    calling = "tel|telefon|numaram|numara|numarası|ara|arayın|cep|faks"
    months = (
        "Ocak", "Şubat", "Mart", "Nisan", "Mayıs", "Haziran", "Temmuz", "Ağustos", "Eylül",
        "Ekim", "Kasım", "Aralık",
    )  # fmt: skip
    percent = Noun.of("yüzde")
    scales = ("bin", "milyon", "milyar")
    currencies = {
        "₺": Money(Noun.of("lira"), Noun.of("kuruş")),
        "TL": Money(Noun.of("lira"), Noun.of("kuruş")),
        "TRY": Money(Noun.of("lira"), Noun.of("kuruş")),
        "€": Money(Noun.of("euro"), Noun.of("sent")),
        "EUR": Money(Noun.of("euro"), Noun.of("sent")),
        "$": Money(Noun.of("dolar"), Noun.of("sent")),
        "USD": Money(Noun.of("dolar"), Noun.of("sent")),
        "£": Money(Noun.of("sterlin"), Noun.of("peni")),
    }
    units = nouns(
        """
        kg = kilogram m
        g gr = gram m
        mg = miligram m
        t = ton m
        km = kilometre m
        m = metre m
        cm = santimetre m
        mm = milimetre m
        km/sa km/s km/h = kilometre_saat m
        m² = metrekare m
        m³ = metreküp m
        l lt = litre m
        ml = mililitre m
        sa = saat m
        dk = dakika m
        sn = saniye m
        °C ℃ = derece m
        ° = derece m
        kW = kilovat m
        MB = megabayt m
        GB = gigabayt m
    """.replace("_", "\u00a0")
    )
    abbreviations = {
        "vb.": "ve benzeri", "vs.": "vesaire", "örn.": "örneğin", "Prof.": "profesör",
        "Doç.": "doçent",
        "Av.": "avukat", "No.#": "numara", "No:": "numara", "Cad.": "caddesi", "Sok.": "sokak",
        "Mah.": "mahallesi",
        "yy.": "yüzyıl", "M.Ö.": "milattan önce", "M.S.": "milattan sonra", "bkz.": "bakınız",
        "s.#": "sayfa",
        "T.C.": "Türkiye Cumhuriyeti", "tel.": "telefon",
    }  # fmt: skip
    fractions = {"½": "yarım", "¼": "çeyrek", "¾": "dörtte üç"}

    def read(self, text: str) -> str:
        """Suffixes join what they stand behind: 2015'te is iki bin on beşte."""
        said = super().read(_TURKISH_SUFFIX.sub("\\1\ue8ff", text))
        return re.sub(r"\s?\ue8ff\s?", "", said)

    def percentage(self, amount: str) -> str:
        """Yüzde on dört."""
        sign, first, second = self.amount(amount)
        last = f" {self.to} {self.number(second)}" if second else ""
        return f"{sign} {self.percent.one} {self.number(first)}{last}".strip()

    def minutes(self, minute: int) -> str:
        """Sıfır beş."""
        return f"sıfır {self.cardinal(minute)}" if minute < 10 else self.cardinal(minute)

    def read_ordinals(self, text: str) -> str:
        """2. before a word; 2'nci."""
        text = _TURKISH_SUFFIXED.sub(lambda m: self.ordinal(int(m[1])), text)
        return _TURKISH_ORDINAL.sub(lambda m: self.ordinal(int(m[1])), text)


_TURKISH_SUFFIX = re.compile(r"([0-9€$%])['’](?=(?![ıiuü]?nc)[a-zçğıöşü])")
_TURKISH_ORDINAL = re.compile(r"(?<![\w.,])([0-9]{1,4})\.(?=\s[a-zçğıöşü])")
_TURKISH_SUFFIXED = re.compile(r"(?<![\w.,])([0-9]{1,4})['’]?(?:[ıiuü]?nc[ıiuü])(?!\w)")


class HungarianRules(LanguageRules):
    """Hungarian: no plural behind a numeral; suffixes join numbers and signs."""

    code = "hu"
    cardinals = {"m": "cardinal"}
    ordinals = {"m": "ordinal"}
    point, minus, plus, to = "egész", "mínusz", "plusz", "-"
    calling = "tel|telefon|hívja|hívj|hívjon|szám|mobil|fax|telefonszám"
    months = (
        "január", "február", "március", "április", "május", "június", "július", "augusztus",
        "szeptember", "október", "november", "december",
    )  # fmt: skip
    percent = Noun.of("százalék")
    scales = ("ezer", "millió", "milliárd")
    currencies = {
        "Ft": Money(Noun.of("forint")), "HUF": Money(Noun.of("forint")),
        "€": Money(Noun.of("euró"), Noun.of("cent")),
        "EUR": Money(Noun.of("euró"), Noun.of("cent")),
        "$": Money(Noun.of("dollár"), Noun.of("cent")),
        "USD": Money(Noun.of("dollár"), Noun.of("cent")),
        "£": Money(Noun.of("font"), Noun.of("penny")),
    }  # fmt: skip
    units = nouns(
        """
        kg = kilogramm m
        g = gramm m
        dkg = dekagramm m
        mg = milligramm m
        t = tonna m
        km = kilométer m
        m = méter m
        cm = centiméter m
        mm = milliméter m
        km/h km/ó = kilométer_per_óra m
        m² = négyzetméter m
        m³ = köbméter m
        l = liter m
        dl = deciliter m
        ml = milliliter m
        perc = perc m
        mp = másodperc m
        °C ℃ = celsius_fok m
        ° = fok m
        kW = kilowatt m
        MB = megabájt m
        GB = gigabájt m
    """.replace("_", "\u00a0")
    )
    abbreviations = {
        "pl.": "például", "stb.": "és a többi", "kb.": "körülbelül", "ún.": "úgynevezett",
        "ill.": "illetve",
        "u.": "utca", "út.": "út", "tel.": "telefon", "Prof.": "professzor", "ifj.": "ifjabb",
        "id.": "idősebb",
        "Kft.": "káefté", "Zrt.": "zéerté", "i. e.": "időszámításunk előtt",
        "i. sz.": "időszámításunk szerint",
        "db": "darab", "old.": "oldal", "özv.": "özvegy", "sz.": "szám",
    }  # fmt: skip
    fractions = {"½": "fél", "¼": "negyed", "¾": "háromnegyed"}
    _PARTS = {1: "tized", 2: "század", 3: "ezred"}
    # The days of a month, with the possessive ending of dates.
    _FIRST = "elseje"

    def cardinal(self, number: int, gender: str = "m") -> str:
        """Kettő where it counts nothing, két before a noun."""
        return spell("hu", number, "cardinal-initial" if gender == "noun" else "cardinal")

    def counted(self, amount: str, noun: Noun) -> str:
        """Két kilogramm."""
        sign, first, second = self.amount(amount)
        said = f"{self.number(first)} {noun.one}"
        if not second and first.endswith("2") and self.parse(first).fraction == "":
            value = self.parse(first).value
            said = f"{self.cardinal(value).removesuffix('kettő')}két {noun.one}"
        if second:
            said = f"{self.number(first)} {self.number(second)} {noun.one}"
        return f"{sign} {said}".strip()

    def decimal_words(self, number: WrittenNumber) -> str:
        """Tizenkettő egész öt tized."""
        part = self._PARTS.get(len(number.fraction))
        if part is None or not int(number.fraction):
            return f"{self.whole(number.whole)} egész {self.digits(number.fraction)}"
        return f"{self.whole(number.whole)} egész {self.cardinal(int(number.fraction))} {part}"

    def date(self, day: int, month: int, year: int | None, before: str = "") -> str:
        """Kétezerhuszonnégy március ötödike."""
        said = f"{self.months[month - 1]} {self.day(day)}"
        return said if year is None else f"{self.year(year)} {said}"

    def day(self, number: int, before: str = "") -> str:
        """Ötödike."""
        if number == 1:
            return self._FIRST
        ordinal = self.ordinal(number)
        return ordinal + ("a" if set(ordinal[-4:]) & set("aáoóuú") else "e")

    def read_dates(self, text: str) -> str:
        """2024. március 5., 2024.03.05."""
        text = _HUNGARIAN_FIGURES.sub(self._figures, text)
        text = _HUNGARIAN_DATE.sub(self._named, text)
        return super().read_dates(text)

    def _figures(self, match: re.Match[str]) -> str:
        return self._dated(match, match[1], match[2], match[3]) + self._dot(match)

    def _named(self, match: re.Match[str]) -> str:
        names = list(self.months)
        if match[2].casefold() not in names or not 1 <= int(match[3]) <= 31:
            return match[0]
        year = int(match[1]) if match[1] else None
        said = self.date(int(match[3]), names.index(match[2].casefold()) + 1, year)
        if match[4]:  # 5-én: ötödikén, 1-jén: elsején
            ending = match[4].lstrip("-").removeprefix("j")[1:]
            return said[:-1] + ({"a": "á", "e": "é"}[said[-1]] if ending else said[-1]) + ending
        return said + self._dot(match)

    def _dot(self, match: re.Match[str]) -> str:
        return "." if match[0].endswith(".") and match.end() == len(match.string) else ""

    @cached_property
    def read_named_dates(self) -> Step:
        """Done already, the other way round."""
        return lambda text: text

    def time(
        self, hour: int, minute: int, second: int | None = None, before: str = "", after: str = ""
    ) -> str:
        """Tizennégy óra harminc perc."""
        said = f"{'két' if hour == 2 else self.cardinal(hour)} óra"
        if minute or second is not None:
            said += f" {self.cardinal(minute)} perc"
        return said if second is None else f"{said} {self.cardinal(second)} másodperc"

    def read_ordinals(self, text: str) -> str:
        """2. before a word; 5-7. before a word."""
        text = _HUNGARIAN_RANGE.sub(
            lambda m: f"{self.cardinal(int(m[1]))} {self.ordinal(int(m[2]))}", text
        )
        return _HUNGARIAN_ORDINAL.sub(lambda m: self.ordinal(int(m[1])), text)

    def read(self, text: str) -> str:
        """Suffixes join what they stand behind, behind signs too: 5 €-t is öt eurót."""
        said = super().read(_HUNGARIAN_SUFFIX.sub("\\1\ue8ff\\2", text))
        return re.sub(r"\s?\ue8ff\s?", "", said)


_HUNGARIAN_FIGURES = re.compile(
    r"(?<![\w.,-])([12][0-9]{3})[.]\s?([0-9]{1,2})[.]\s?([0-9]{1,2})(?:\.(?!\w)|(?![\w.]))"
)
_HUNGARIAN_DATE = re.compile(
    r"(?<![\w,])(?:([12][0-9]{3})\.\s)?([a-zA-Záéíóöőúüű]{5,11})\s([0-9]{1,2})(?:\.|(-j?[aáeé]n?))(?!\w)"
)
_HUNGARIAN_ORDINAL = re.compile(r"(?<![\w.,])([0-9]{1,4})\.(?=\s[a-záéíóöőúüű])")
_HUNGARIAN_RANGE = re.compile(r"(?<![\w.,])([0-9]{1,4})[-–]([0-9]{1,4})\.(?=\s[a-záéíóöőúüű])")
_HUNGARIAN_SUFFIX = re.compile(
    r"([0-9€$£%]|Ft|kg|km|°C|cm)-((?!j?[áaeé]n?(?!\w))[a-záéíóöőúüű]{1,6})(?!\w)"
)


class ArabicRules(LanguageRules):
    """Modern Standard Arabic, as it is spoken: masculine numerals in pausal form."""

    code = "ar"
    cardinals = {"m": "cardinal-masculine"}
    decimal, group, spaced_groups = ".", ",", False
    point, minus, plus, to = "فاصلة", "ناقص", "زائد", "إلى"
    calling = "اتصل|هاتف|تلفون|رقم|جوال"
    months = (
        "يناير", "فبراير", "مارس", "أبريل", "مايو", "يونيو", "يوليو", "أغسطس", "سبتمبر", "أكتوبر",
        "نوفمبر", "ديسمبر",
    )  # fmt: skip
    percent = Noun.of("في المئة")
    currencies = {
        "$": Money(Noun.of("دولار")), "USD": Money(Noun.of("دولار")),
        "€": Money(Noun.of("يورو")), "EUR": Money(Noun.of("يورو")), "£": Money(Noun.of("جنيه")),
    }  # fmt: skip
    units = nouns(
        """
        كغ كجم كغم kg = كيلوغرام/كيلوغرامات/كيلوغراما m
        غ غم g = غرام/غرامات/غراما m
        كم km = كيلومتر/كيلومترات/كيلومترا m
        م m = متر/أمتار/مترا m
        سم cm = سنتيمتر/سنتيمترات/سنتيمترا m
        مم mm = مليمتر/مليمترات/مليمترا m
        كم/س km/h = كيلومتر_في_الساعة/كيلومترات_في_الساعة/كيلومترا_في_الساعة m
        ل = لتر/لترات/لترا m
        °C ℃ °م = درجة_مئوية/درجات_مئوية/درجة_مئوية f
        ° = درجة/درجات/درجة f
    """.replace("_", "\u00a0")
    )
    abbreviations = {"د.": "دكتور", "أ.": "أستاذ", "م.": "مهندس", "إلخ.": "إلى آخره", "ص.#": "صفحة"}
    fractions = {"½": "نصف", "¼": "ربع", "¾": "ثلاثة أرباع"}
    # CLDR spells these apart, and the first two with a hamza that they have not.
    _CORRECTIONS = (
        ("إثن", "اثن"), ("إحدى عشر", "أحد عشر"), ("ثلاثة مائة", "ثلاثمائة"), ("أربعة مائة",
        "أربعمائة"), ("خمسة مائة", "خمسمائة"),
        ("ستة مائة", "ستمائة"), ("سبعة مائة", "سبعمائة"), ("ثمانية مائة", "ثمانمائة"),
        ("تسعة مائة", "تسعمائة"),
    )  # fmt: skip
    _HOURS = (
        "الثانية عشرة", "الواحدة", "الثانية", "الثالثة", "الرابعة", "الخامسة", "السادسة", "السابعة",
        "الثامنة", "التاسعة", "العاشرة", "الحادية عشرة",
    )  # fmt: skip

    def cardinal(self, number: int, gender: str = "m") -> str:
        """As CLDR spells it, put right."""
        found = spell("ar", number, "numbering")
        for wrong, right in self._CORRECTIONS:
            found = found.replace(wrong, right)
        return found

    def digit(self, number: int) -> str:
        """As `cardinal`."""
        return self.cardinal(number)

    def form(self, number: WrittenNumber, noun: Noun) -> str:
        """Plural behind 3 to 10, singular accusative behind 11 to 99, else singular."""
        last = number.value % 100
        if number.fraction or last in (0, 1, 2):
            return noun.one
        return noun.few if last <= 10 else noun.many

    def time(
        self, hour: int, minute: int, second: int | None = None, before: str = "", after: str = ""
    ) -> str:
        """The hour is a definite feminine ordinal."""
        said = self._HOURS[hour % 12]
        parts = {15: "والربع", 30: "والنصف"}
        if minute:
            said += f" {parts.get(minute) or f'و{self.cardinal(minute)} دقيقة'}"
        return said


class HindiRules(LanguageRules):
    """Hindi, with thousands grouped in the Indian way and in the other."""

    code = "hi"
    cardinals = {"m": "cardinal"}
    ordinals = {"m": "ordinal-masculine", "f": "ordinal-feminine"}
    decimal, group, spaced_groups = ".", ",", False
    point, minus, plus, to = "दशमलव", "माइनस", "प्लस", "से"
    calling = "फ़ोन|फोन|मोबाइल|कॉल|नंबर"
    months = (
        "जनवरी", "फ़रवरी", "मार्च", "अप्रैल", "मई", "जून", "जुलाई", "अगस्त", "सितंबर", "अक्टूबर",
        "नवंबर", "दिसंबर",
    )  # fmt: skip
    percent = Noun.of("प्रतिशत")
    scales = ("हज़ार", "हजार", "लाख", "करोड़", "अरब")
    currencies = {
        "₹": Money(Noun.of("रुपया/रुपये"), Noun.of("पैसा/पैसे")),
        "INR": Money(Noun.of("रुपया/रुपये"), Noun.of("पैसा/पैसे")),
        "रु.": Money(Noun.of("रुपया/रुपये"), Noun.of("पैसा/पैसे")),
        "$": Money(Noun.of("डॉलर"), Noun.of("सेंट")), "USD": Money(Noun.of("डॉलर"), Noun.of("सेंट")),
        "€": Money(Noun.of("यूरो"), Noun.of("सेंट")), "EUR": Money(Noun.of("यूरो"), Noun.of("सेंट")),
        "£": Money(Noun.of("पाउंड"), Noun.of("पेंस")),
    }  # fmt: skip
    units = nouns(
        """
        kg किग्रा = किलोग्राम m
        g ग्रा = ग्राम m
        km किमी कि.मी. = किलोमीटर m
        m मी = मीटर m
        cm सेमी = सेंटीमीटर m
        mm मिमी = मिलीमीटर m
        km/h किमी/घंटा = किलोमीटर_प्रति_घंटा m
        l ली = लीटर m
        ml = मिलीलीटर m
        °C ℃ = डिग्री_सेल्सियस m
        ° = डिग्री m
        GB = गीगाबाइट m
        MB = मेगाबाइट m
    """.replace("_", "\u00a0")
    )
    abbreviations = {
        "डॉ.": "डॉक्टर", "प्रो.": "प्रोफ़ेसर", "श्री.": "श्री", "कु.": "कुमारी", "आदि.": "आदि",
        "ई.पू.": "ईसा पूर्व", "पृ.#": "पृष्ठ", "सं.#": "संख्या",
    }  # fmt: skip
    fractions = {"½": "आधा", "¼": "चौथाई", "¾": "पौन"}

    def fraction(self, digits: str) -> str:
        """One by one."""
        return self.digits(digits)

    def year(self, number: int) -> str:
        """In hundreds up to 1999."""
        if 1100 <= number <= 1999:
            rest = f" {self.cardinal(number % 100)}" if number % 100 else ""
            return f"{self.cardinal(number // 100)} सौ{rest}"
        return self.cardinal(number)

    def cardinal(self, number: int, gender: str = "m") -> str:
        """As CLDR spells it, with the anusvara of today's standard."""
        return super().cardinal(number, gender).replace("पन्द्रह", "पंद्रह")

    def read_times(self, text: str) -> str:
        """10:30 बजे."""
        return super().read_times(_HINDI_CLOCK.sub(self._clock, text))

    def _clock(self, match: re.Match[str]) -> str:
        hour, minute = int(match[1]), int(match[2])
        if hour > 24 or minute > 59:
            return match[0]
        if minute == 30:
            halves = {1: "डेढ़", 2: "ढाई"}
            return f"{halves.get(hour) or f'साढ़े {self.cardinal(hour)}'} बजे"
        return self.time(hour, minute)

    def time(
        self, hour: int, minute: int, second: int | None = None, before: str = "", after: str = ""
    ) -> str:
        """दस बजकर पैंतालीस मिनट."""
        if not minute:
            return f"{self.cardinal(hour)} बजे"
        return f"{self.cardinal(hour)} बजकर {self.cardinal(minute)} मिनट"

    def read_years(self, text: str) -> str:
        """Four figures before में and its like, or behind सन्."""
        return _HINDI_YEAR.sub(lambda m: m[1] + self.year(int(m[2])), text)

    def read_ordinals(self, text: str) -> str:
        """2रा, 5वाँ."""
        return _HINDI_ORDINAL.sub(
            lambda m: self.ordinal(int(m[1]), "f" if m[2].endswith(("ी", "ीं")) else "m"), text
        )


_HINDI_YEAR = re.compile(r"((?:सन्\s|साल\s)?)(?<![\w.,])(1[1-9][0-9]{2})(?=\s(?:में|के|से|की|का|तक|ई))")
_HINDI_CLOCK = re.compile(r"(?<![\d:.,])([0-9]{1,2}):([0-9]{2})\sबजे(?!\w)")
_HINDI_ORDINAL = re.compile(
    r"(?<![\w.,])([0-9]{1,4})(वाँ|वां|वा|वीं|वी|वें|ला|ली|रा|री|था|थी|ठा|ठी)(?![\u0900-\u097f])"
)
