"""How Spanish, French, Italian and Portuguese are read."""

import re

from xtts.text.normalization.language_rules import (
    LanguageRules,
    Money,
    Noun,
    WrittenNumber,
    nouns,
)
from xtts.text.normalization.spelling import spell

_WORD_BEHIND = re.compile(r"\s([a-zà-ÿ]{3,30})(?!\w)")
_HOURS_SIGN = re.compile(r"(?<![\w.,:])([0-9]{1,2})[:.]([0-9]{2})\s?(?:hs?|hrs)\b\.?")
# Masculine in spite of their ending, in Spanish and Portuguese.
_MASCULINE = frozenset(
    "día días dia dias problema problemas programa programas sistema sistemas tema temas mapa "
    "mapas clima climas idioma idiomas poema poemas planeta planetas gramas quilogramas cinema "
    "cinemas telegrama telegramas drama dramas esquema esquemas síntoma síntomas "
    "sintoma sintomas".split()
)
_NO_NOUNS = frozenset(
    "para era eran contra cada hasta nada ahora hora-a mas más mais menos por que con com del dos "
    "das und e y o u a en em é".split()
)


def _iberian_gender(after: str) -> str | None:
    """Of the noun that follows, by its ending."""
    found = _WORD_BEHIND.match(after)
    word = found[1] if found else ""
    if not word or word in _NO_NOUNS:
        return None
    feminine = word.endswith(("a", "as", "ción", "ciones", "dad", "dades", "ção", "ções", "dade",
                              "gem", "gens", "sión", "siones"))  # fmt: skip
    if feminine and word not in _MASCULINE:
        return "f"
    return "m" if word.endswith(("o", "os", "s", "e", "l", "r")) or word in _MASCULINE else None


class SpanishRules(LanguageRules):
    """Spanish; decimal commas and points are both read."""

    code = "es"
    ordinals = {"m": "ordinal-masculine", "f": "ordinal-feminine"}
    point, minus, plus, to = "coma", "menos", "más", "a"
    calling = "tel|teléfono|telefono|llame|llama|llamar|llámame|número|numero|móvil|fax"
    months = (
        "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre",
        "octubre", "noviembre", "diciembre",
    )  # fmt: skip
    clock_words = "las|la"
    percent = Noun.of("por ciento", "")
    scales = ("mil", "millón", "millones", "billones")
    scale_joiner = " de "
    money_joiner = " con "
    currencies = {
        "€": Money(Noun.of("euro/euros"), Noun.of("céntimo/céntimos")),
        "EUR": Money(Noun.of("euro/euros"), Noun.of("céntimo/céntimos")),
        "$": Money(Noun.of("dólar/dólares"), Noun.of("centavo/centavos")),
        "US$": Money(Noun.of("dólar/dólares"), Noun.of("centavo/centavos")),
        "USD": Money(Noun.of("dólar/dólares"), Noun.of("centavo/centavos")),
        "£": Money(Noun.of("libra/libras", "f"), Noun.of("penique/peniques")),
        "¥": Money(Noun.of("yen/yenes")),
    }
    units = nouns("""
        kg = kilogramo/kilogramos m
        g = gramo/gramos m
        mg = miligramo/miligramos m
        t = tonelada/toneladas f
        km = kilómetro/kilómetros m
        m = metro/metros m
        cm = centímetro/centímetros m
        mm = milímetro/milímetros m
        km/h = kilómetro por hora/kilómetros por hora m
        m/s = metro por segundo/metros por segundo m
        km² = kilómetro cuadrado/kilómetros cuadrados m
        m² = metro cuadrado/metros cuadrados m
        m³ = metro cúbico/metros cúbicos m
        l = litro/litros m
        ml = mililitro/mililitros m
        h = hora/horas f
        min = minuto/minutos m
        s = segundo/segundos m
        °C ℃ ºC = grado celsius/grados celsius m
        °F = grado fahrenheit/grados fahrenheit m
        ° = grado/grados m
        kW = kilovatio/kilovatios m
        kWh = kilovatio hora/kilovatios hora m
        MB = megabyte/megabytes m
        GB = gigabyte/gigabytes m
    """)
    abbreviations = {
        "p. ej.": "por ejemplo", "etc.": "etcétera", "Ud.": "usted", "Uds.": "ustedes",
        "Vd.": "usted",
        "núm.": "número", "n.º": "número", "nº": "número", "pág.": "página", "págs.": "páginas",
        "Srta.": "señorita", "Sres.": "señores", "Dña.": "doña", "Prof.": "profesor",
        "Profa.": "profesora", "EE. UU.": "Estados Unidos", "aprox.": "aproximadamente",
        "Avda.": "avenida",
        "a. C.": "antes de Cristo", "d. C.": "después de Cristo", "C/": "calle", "tel.": "teléfono",
    }  # fmt: skip
    fractions = {"½": "medio", "¼": "un cuarto", "¾": "tres cuartos"}

    def cardinal(self, number: int, gender: str = "") -> str:
        """Uno where it counts nothing, un before a masculine noun."""
        rules = {"m": "cardinal-masculine", "f": "cardinal-feminine"}.get(gender, "numbering")
        return spell("es", number, rules)

    def number(self, text: str, gender: str = "") -> str:
        """As in `LanguageRules`."""
        return super().number(text, gender)

    def words(self, number: WrittenNumber, gender: str = "") -> str:
        """As in `LanguageRules`."""
        return super().words(number, gender)

    def whole(self, digits: str, gender: str = "") -> str:
        """As in `LanguageRules`; before a noun it is masculine in most cases."""
        return super().whole(digits, gender)

    def gender_before(self, after: str) -> str | None:
        """One and hundreds agree with the noun."""
        return _iberian_gender(after)

    def read_times(self, text: str) -> str:
        """20:15 h."""
        return super().read_times(_HOURS_SIGN.sub(r"\1:\2", text))

    def date(self, day: int, month: int, year: int | None, before: str = "") -> str:
        """Cinco de marzo de dos mil veinticuatro."""
        said = f"{self.day(day, before)} de {self.months[month - 1]}"
        return said if year is None else f"{said} de {self.year(year)}"

    def minutes(self, minute: int) -> str:
        """Cero cinco."""
        return f"cero {self.cardinal(minute)}" if minute < 10 else self.cardinal(minute)

    def time(
        self, hour: int, minute: int, second: int | None = None, before: str = "", after: str = ""
    ) -> str:
        """Hours are feminine: la una."""
        said = self.cardinal(hour, "f")
        if minute or second is not None:
            said += f" {self.minutes(minute)}"
        return said if second is None else f"{said} y {self.cardinal(second)} segundos"

    def read_ordinals(self, text: str) -> str:
        """2ª, 1.º, 3.er."""
        return _SPANISH_ORDINAL.sub(self._ordinal, text)

    def _ordinal(self, match: re.Match[str]) -> str:
        number, mark = int(match[1]), match[2].lower()
        if mark in ("ª", "a"):
            return self.ordinal(number, "f")
        before_noun = re.match(r"\s[a-záéíóúñ]", match.string[match.end() :])
        if mark == "er" or (before_noun and number % 10 in (1, 3) and number not in (11, 13)):
            return spell("es", number, "ordinal-masculine-adjective")
        return self.ordinal(number)


_SPANISH_ORDINAL = re.compile(r"(?<![\w.,])([0-9]{1,4})\.?(º|ª|°(?!\s?[CF])|er\b|(?<=\.)[oa]\b)")


class FrenchRules(LanguageRules):
    """French of France."""

    code = "fr"
    cardinals = {"m": "cardinal-masculine", "f": "cardinal-feminine"}
    ordinals = {"m": "ordinal-masculine", "f": "ordinal-feminine"}
    point, minus, to = "virgule", "moins", "à"
    calling = "tél|tel|téléphone|appelez|appeler|appelle|numéro|portable|fax"
    months = (
        "janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre",
        "octobre", "novembre", "décembre",
    )  # fmt: skip
    percent = Noun.of("pour cent")
    scales = ("mille", "million", "millions", "milliard", "milliards")
    scale_joiner = " de "
    money_joiner = " et "
    currencies = {
        "€": Money(Noun.of("euro/euros"), Noun.of("centime/centimes")),
        "EUR": Money(Noun.of("euro/euros"), Noun.of("centime/centimes")),
        "$": Money(Noun.of("dollar/dollars"), Noun.of("cent/cents")),
        "USD": Money(Noun.of("dollar américain/dollars américains"), Noun.of("cent/cents")),
        "£": Money(Noun.of("livre/livres", "f"), Noun.of("penny/pence")),
        "CHF": Money(Noun.of("franc suisse/francs suisses"), Noun.of("centime/centimes")),
        "¥": Money(Noun.of("yen/yens")),
    }
    units = nouns("""
        kg = kilogramme/kilogrammes m
        g = gramme/grammes m
        mg = milligramme/milligrammes m
        t = tonne/tonnes f
        km = kilomètre/kilomètres m
        m = mètre/mètres m
        cm = centimètre/centimètres m
        mm = millimètre/millimètres m
        km/h = kilomètre par heure/kilomètres par heure m
        m/s = mètre par seconde/mètres par seconde m
        km² = kilomètre carré/kilomètres carrés m
        m² = mètre carré/mètres carrés m
        m³ = mètre cube/mètres cubes m
        l L = litre/litres m
        ml = millilitre/millilitres m
        min mn = minute/minutes f
        s = seconde/secondes f
        °C ℃ = degré celsius/degrés celsius m
        °F = degré fahrenheit/degrés fahrenheit m
        ° = degré/degrés m
        kW = kilowatt/kilowatts m
        kWh = kilowattheure/kilowattheures m
        Mo = mégaoctet/mégaoctets m
        Go = gigaoctet/gigaoctets m
        MB = mégaoctet/mégaoctets m
        GB = gigaoctet/gigaoctets m
    """)
    abbreviations = {
        "M.": "monsieur", "Mme": "madame", "Mlle": "mademoiselle", "MM.": "messieurs",
        "Mmes": "mesdames",
        "Dr": "docteur", "Pr": "professeur", "p. ex.": "par exemple", "etc.": "et cetera",
        "c.-à-d.": "c'est-à-dire", "n°": "numéro", "env.": "environ", "av.": "avenue",
        "bd": "boulevard",
        "av. J.-C.": "avant Jésus-Christ", "apr. J.-C.": "après Jésus-Christ",
        "St": "saint", "Ste": "sainte", "tél.": "téléphone",
    }  # fmt: skip
    fractions = {"½": "un demi", "¼": "un quart", "¾": "trois quarts"}

    def day(self, number: int, before: str = "") -> str:
        """The first is an ordinal."""
        return "premier" if number == 1 else self.cardinal(number)

    def time(
        self, hour: int, minute: int, second: int | None = None, before: str = "", after: str = ""
    ) -> str:
        """Dix-huit heures trente."""
        said = f"{self.cardinal(hour, 'f')} {'heure' if hour < 2 else 'heures'}"
        said += f" {self.cardinal(minute, 'f')}" if minute or second is not None else ""
        return said if second is None else f"{said} et {self.cardinal(second, 'f')} secondes"

    def read_times(self, text: str) -> str:
        """18h30, 18 h 30, 18h."""
        return super().read_times(_HOURS.sub(self._hours, text))

    def _hours(self, match: re.Match[str]) -> str:
        hour, minute = int(match[1]), int(match[2] or 0)
        return match[0] if hour > 24 or minute > 59 else self.time(hour, minute)

    def phone(self, text: str) -> str:
        """In pairs where it is written in pairs."""
        parts = re.findall(r"\d+", text)
        if sum(len(part) == 2 for part in parts) < 4:
            return super().phone(text)
        plus = "plus " if text.startswith("+") else ""
        return plus + ", ".join(
            self.cardinal(int(part)) if len(part) == 2 and part[0] != "0" else self.digits(part)
            for part in parts
        )

    def read(self, text: str) -> str:
        """De is d' before a vowel."""
        return re.sub(r"(?<=lions) de (?=euros)", " d'", super().read(text))

    def form(self, number: WrittenNumber, noun: Noun) -> str:
        """Plural from two on: 1,5 kilogramme."""
        return noun.one if number.value < 2 else noun.few

    def read_ordinals(self, text: str) -> str:
        """2e, 1re, 3ème."""
        return _FRENCH_ORDINAL.sub(
            lambda m: self.ordinal(int(m[1]), "f" if m[2].startswith("r") else "m"), text
        )


# French 18h30, Portuguese 9h15.
_HOURS = re.compile(r"(?<![\w.,:])([0-9]{1,2})\s?[hH](?:\s?([0-9]{2})(?:\s?min\b)?)?(?![\w])")
_FRENCH_ORDINAL = re.compile(r"(?<![\w.,])([0-9]{1,6})(er|re|ère|ème|eme|e|nde?|º|ᵉ)(?!\w)")


class ItalianRules(LanguageRules):
    """Italian."""

    code = "it"
    ordinals = {"m": "ordinal-masculine", "f": "ordinal-feminine"}
    point, minus, plus, to = "virgola", "meno", "più", "a"
    calling = "tel|telefono|chiami|chiama|chiamare|chiami lo|numero|cellulare|fax"
    months = (
        "gennaio", "febbraio", "marzo", "aprile", "maggio", "giugno", "luglio", "agosto",
        "settembre", "ottobre", "novembre", "dicembre",
    )  # fmt: skip
    clock_words = "ore|alle|dalle|all[ae] ore"
    percent = Noun.of("per cento", "")
    scales = ("mila", "milione", "milioni", "miliardo", "miliardi")
    scale_joiner = " di "
    money_joiner = " e "
    currencies = {
        "€": Money(Noun.of("euro"), Noun.of("centesimo/centesimi")),
        "EUR": Money(Noun.of("euro"), Noun.of("centesimo/centesimi")),
        "$": Money(Noun.of("dollaro/dollari"), Noun.of("centesimo/centesimi")),
        "USD": Money(Noun.of("dollaro/dollari"), Noun.of("centesimo/centesimi")),
        "£": Money(Noun.of("sterlina/sterline", "f"), Noun.of("penny/pence")),
        "¥": Money(Noun.of("yen")),
    }
    units = nouns("""
        kg = chilogrammo/chilogrammi m
        g = grammo/grammi m
        mg = milligrammo/milligrammi m
        t = tonnellata/tonnellate f
        km = chilometro/chilometri m
        m = metro/metri m
        cm = centimetro/centimetri m
        mm = millimetro/millimetri m
        km/h = chilometro orario/chilometri orari m
        m/s = metro al secondo/metri al secondo m
        km² = chilometro quadrato/chilometri quadrati m
        m² mq = metro quadrato/metri quadrati m
        m³ = metro cubo/metri cubi m
        l = litro/litri m
        ml = millilitro/millilitri m
        h = ora/ore f
        min = minuto/minuti m
        s = secondo/secondi m
        °C ℃ = grado celsius/gradi celsius m
        °F = grado fahrenheit/gradi fahrenheit m
        kW = kilowatt m
        kWh = kilowattora m
        MB = megabyte m
        GB = gigabyte m
    """)
    abbreviations = {
        "Sig.": "signor", "Sig.ra": "signora", "Sig.na": "signorina", "Dott.": "dottor",
        "Dott.ssa": "dottoressa", "Prof.": "professor", "Prof.ssa": "professoressa",
        "Ing.": "ingegner",
        "Avv.": "avvocato", "ecc.": "eccetera", "ad es.": "ad esempio", "p. es.": "per esempio",
        "n.#": "numero", "pag.": "pagina", "tel.": "telefono", "ca.": "circa",
        "S.p.A.": "società per azioni",
        "a.C.": "avanti Cristo", "d.C.": "dopo Cristo", "Dr.": "dottor",
    }  # fmt: skip
    fractions = {"½": "un mezzo", "¼": "un quarto", "¾": "tre quarti"}

    def cardinal(self, number: int, gender: str = "") -> str:
        """Uno where it counts nothing, un before a masculine noun; ventuno stays whole."""
        rules = {"m": "cardinal-masculine", "f": "cardinal-feminine"}.get(gender, "numbering")
        return spell("it", number, rules if number == 1 else "numbering")

    def number(self, text: str, gender: str = "") -> str:
        """As in `LanguageRules`."""
        return super().number(text, gender)

    def words(self, number: WrittenNumber, gender: str = "") -> str:
        """As in `LanguageRules`."""
        return super().words(number, gender)

    def whole(self, digits: str, gender: str = "") -> str:
        """As in `LanguageRules`."""
        return super().whole(digits, gender)

    def gender_before(self, after: str) -> str | None:
        """One agrees with the noun."""
        found = _WORD_BEHIND.match(after)
        if found is None or found[1] in _NO_NOUNS:
            return None
        return "f" if found[1].endswith("a") else "m" if found[1].endswith(("o", "e")) else None

    def read_times(self, text: str) -> str:
        """20:15 h."""
        return super().read_times(_HOURS_SIGN.sub(r"\1:\2", text))

    def day(self, number: int, before: str = "") -> str:
        """The first is an ordinal."""
        return "primo" if number == 1 else self.cardinal(number)

    def time(
        self, hour: int, minute: int, second: int | None = None, before: str = "", after: str = ""
    ) -> str:
        """Quattordici e trenta."""
        said = self.cardinal(hour, "f" if hour == 1 else "")
        said += f" e {self.minutes(minute)}" if minute or second is not None else ""
        return said if second is None else f"{said} e {self.cardinal(second)} secondi"

    def minutes(self, minute: int) -> str:
        """Cinque."""
        return self.cardinal(minute)

    def read_ordinals(self, text: str) -> str:
        """3°, 2ª."""
        return _ITALIAN_ORDINAL.sub(
            lambda m: self.ordinal(int(m[1]), "f" if m[2] == "ª" else "m"), text
        )


_ITALIAN_ORDINAL = re.compile(r"(?<![\w.,])([0-9]{1,4})\s?(º|ª|°(?!\s?[CF]))")


class PortugueseRules(LanguageRules):
    """Portuguese, as in Brazil where the two differ."""

    code = "pt"
    cardinals = {"m": "cardinal-masculine", "f": "cardinal-feminine"}
    ordinals = {"m": "ordinal-masculine", "f": "ordinal-feminine"}
    point, minus, plus, to = "vírgula", "menos", "mais", "a"
    calling = "tel|telefone|ligue|ligar|liga|número|celular|telemóvel|fax"
    months = (
        "janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro",
        "outubro", "novembro", "dezembro",
    )  # fmt: skip
    percent = Noun.of("por cento")
    scales = ("mil", "milhão", "milhões", "bilhão", "bilhões", "mil milhões")
    scale_joiner = " de "
    money_joiner = " e "
    currencies = {
        "R$": Money(Noun.of("real/reais"), Noun.of("centavo/centavos")),
        "BRL": Money(Noun.of("real/reais"), Noun.of("centavo/centavos")),
        "€": Money(Noun.of("euro/euros"), Noun.of("cêntimo/cêntimos")),
        "EUR": Money(Noun.of("euro/euros"), Noun.of("cêntimo/cêntimos")),
        "$": Money(Noun.of("dólar/dólares"), Noun.of("centavo/centavos")),
        "US$": Money(Noun.of("dólar/dólares"), Noun.of("centavo/centavos")),
        "USD": Money(Noun.of("dólar/dólares"), Noun.of("centavo/centavos")),
        "£": Money(Noun.of("libra/libras", "f"), Noun.of("pêni/pence")),
        "¥": Money(Noun.of("iene/ienes")),
    }
    units = nouns("""
        kg = quilograma/quilogramas m
        g = grama/gramas m
        mg = miligrama/miligramas m
        t = tonelada/toneladas f
        km = quilômetro/quilômetros m
        m = metro/metros m
        cm = centímetro/centímetros m
        mm = milímetro/milímetros m
        km/h = quilômetro por hora/quilômetros por hora m
        m/s = metro por segundo/metros por segundo m
        km² = quilômetro quadrado/quilômetros quadrados m
        m² = metro quadrado/metros quadrados m
        m³ = metro cúbico/metros cúbicos m
        l L = litro/litros m
        ml = mililitro/mililitros m
        min = minuto/minutos m
        s = segundo/segundos m
        °C ℃ = grau celsius/graus celsius m
        °F = grau fahrenheit/graus fahrenheit m
        ° = grau/graus m
        kW = quilowatt/quilowatts m
        kWh = quilowatt-hora/quilowatts-hora m
        MB = megabyte/megabytes m
        GB = gigabyte/gigabytes m
    """)
    abbreviations = {
        "p. ex.": "por exemplo", "etc.": "etcétera", "nº": "número", "n.º": "número",
        "pág.": "página",
        "Profa.": "professora", "Prof.": "professor", "Av.": "avenida", "tel.": "telefone",
        "aprox.": "aproximadamente", "a.C.": "antes de Cristo", "d.C.": "depois de Cristo",
        "Exmo.": "excelentíssimo", "Ltda.": "limitada", "Eng.": "engenheiro",
    }  # fmt: skip
    fractions = {"½": "meio", "¼": "um quarto", "¾": "três quartos"}

    def gender_before(self, after: str) -> str | None:
        """One, two and hundreds agree with the noun."""
        return _iberian_gender(after)

    def date(self, day: int, month: int, year: int | None, before: str = "") -> str:
        """Cinco de março de dois mil e vinte e quatro."""
        said = f"{self.day(day, before)} de {self.months[month - 1]}"
        return said if year is None else f"{said} de {self.year(year)}"

    def day(self, number: int, before: str = "") -> str:
        """The first is an ordinal."""
        return "primeiro" if number == 1 else self.cardinal(number)

    def time(
        self, hour: int, minute: int, second: int | None = None, before: str = "", after: str = ""
    ) -> str:
        """Hours are feminine: quatorze e trinta."""
        said = self.cardinal(hour, "f")
        said += f" e {self.cardinal(minute)}" if minute or second is not None else ""
        return said if second is None else f"{said} e {self.cardinal(second)} segundos"

    def read_times(self, text: str) -> str:
        """14h30, 9h."""
        return super().read_times(_HOURS.sub(self._hours, _HOURS_SIGN.sub(r"\1:\2", text)))

    def _hours(self, match: re.Match[str]) -> str:
        hour, minute = int(match[1]), int(match[2] or 0)
        if hour > 24 or minute > 59:
            return match[0]
        if match[2]:
            return self.time(hour, minute)
        return f"{self.cardinal(hour, 'f')} {'hora' if hour == 1 else 'horas'}"

    def read_ordinals(self, text: str) -> str:
        """2º, 3ª."""
        return _PORTUGUESE_ORDINAL.sub(
            lambda m: self.ordinal(int(m[1]), "f" if m[2] in "ªa" else "m"), text
        )


_PORTUGUESE_ORDINAL = re.compile(r"(?<![\w.,])([0-9]{1,4})\.?(º|ª|°(?!\s?[CF])|(?<=\.)[oa]\b)")
