"""How Spanish, French, Italian and Portuguese are read."""

import re

from xtts.text.normalization.language_rules import LanguageRules
from xtts.text.normalization.quantities import ClockTime, Noun, WrittenNumber, moneys, nouns
from xtts.text.normalization.spelling import spell

_WORD_BEHIND = re.compile(r"\s([a-zà-ÿ]{3,30})(?!\w)")
# French 18h30, 18 h 30, 18h; Portuguese 9h15.
_HOURS = re.compile(r"(?<![\w.,:])([0-9]{1,2})\s?[hH](?:\s?([0-9]{2})(?:\s?min\b)?)?(?![\w])")
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


def _iberian_gender(after: str) -> str:
    """Of the noun that follows, by its ending."""
    found = _WORD_BEHIND.match(after)
    word = found[1] if found else ""
    if not word or word in _NO_NOUNS:
        return ""
    feminine = word.endswith(("a", "as", "ción", "ciones", "dad", "dades", "ção", "ções", "dade",
                              "gem", "gens", "sión", "siones"))  # fmt: skip
    if feminine and word not in _MASCULINE:
        return "f"
    return "m" if word.endswith(("o", "os", "s", "e", "l", "r")) or word in _MASCULINE else ""


class SpanishRules(LanguageRules):
    """Spanish; decimal commas and points are both read."""

    code = "es"
    # Uno where it counts nothing, un before a masculine noun.
    cardinals = {"": "numbering", "m": "cardinal-masculine", "f": "cardinal-feminine"}
    ordinals = {"m": "ordinal-masculine", "f": "ordinal-feminine"}
    point, minus, plus, to = "coma", "menos", "más", "a"
    calling = "tel|teléfono|telefono|llame|llama|llamar|llámame|número|numero|móvil|fax"
    months = (
        "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre",
        "octubre", "noviembre", "diciembre",
    )  # fmt: skip
    date_joiner = " de "
    clock_words = "las|la"
    zero_minute = "cero "
    # 2ª, 1.º, 3.er
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,4})\.?(º|ª|°(?!\s?[CF])|er\b|(?<=\.)[oa]\b)")
    percent = Noun.of("por ciento", "")
    scales = ("mil", "millón", "millones", "billones")
    scale_joiner = " de "
    money_joiner = " con "
    currencies = moneys("""
        € EUR = euro/euros m; céntimo/céntimos m
        $ US$ USD = dólar/dólares m; centavo/centavos m
        £ = libra/libras f; penique/peniques m
        ¥ = yen/yenes m
    """)
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
        "Vd.": "usted", "núm.": "número", "n.º": "número", "nº": "número", "pág.": "página",
        "págs.": "páginas", "Srta.": "señorita", "Sres.": "señores", "Dña.": "doña",
        "Prof.": "profesor", "Profa.": "profesora", "EE. UU.": "Estados Unidos",
        "aprox.": "aproximadamente", "Avda.": "avenida", "a. C.": "antes de Cristo",
        "d. C.": "después de Cristo", "C/": "calle", "tel.": "teléfono",
    }  # fmt: skip
    fractions = {"½": "medio", "¼": "un cuarto", "¾": "tres cuartos"}

    def gender_before(self, after: str) -> str:
        """One and hundreds agree with the noun."""
        return _iberian_gender(after)

    def read_times(self, text: str) -> str:
        """20:15 h."""
        return super().read_times(_HOURS_SIGN.sub(r"\1:\2", text))

    def hours(self, hour: int) -> str:
        """Hours are feminine: la una."""
        return self.cardinal(hour, "f")

    def seconds(self, second: int) -> str:
        """Y cinco segundos."""
        return f" y {self.cardinal(second)} segundos"

    def _ordinal(self, match: re.Match[str]) -> str:
        number, mark = int(match[1]), match[2].lower()
        if mark in ("ª", "a"):
            return self.ordinal(number, "f")
        before_noun = re.match(r"\s[a-záéíóúñ]", match.string[match.end() :])
        if mark == "er" or (before_noun and number % 10 in (1, 3) and number not in (11, 13)):
            return spell("es", number, "ordinal-masculine-adjective")
        return self.ordinal(number)


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
    first_day = "premier"
    clock = _HOURS
    # 2e, 1re, 3ème
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,6})(er|re|ère|ème|eme|e|nde?|º|ᵉ)(?!\w)")
    percent = Noun.of("pour cent")
    scales = ("mille", "million", "millions", "milliard", "milliards")
    scale_joiner = " de "
    money_joiner = " et "
    currencies = moneys("""
        € EUR = euro/euros m; centime/centimes m
        $ = dollar/dollars m; cent/cents m
        USD = dollar américain/dollars américains m; cent/cents m
        £ = livre/livres f; penny/pence m
        CHF = franc suisse/francs suisses m; centime/centimes m
        ¥ = yen/yens m
    """)
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
        "Mmes": "mesdames", "Dr": "docteur", "Pr": "professeur", "p. ex.": "par exemple",
        "etc.": "et cetera", "c.-à-d.": "c'est-à-dire", "n°": "numéro", "env.": "environ",
        "av.": "avenue", "bd": "boulevard", "av. J.-C.": "avant Jésus-Christ",
        "apr. J.-C.": "après Jésus-Christ", "St": "saint", "Ste": "sainte", "tél.": "téléphone",
    }  # fmt: skip
    fractions = {"½": "un demi", "¼": "un quart", "¾": "trois quarts"}

    def hours(self, hour: int) -> str:
        """Dix-huit heures."""
        return f"{self.cardinal(hour, 'f')} {'heure' if hour < 2 else 'heures'}"

    def minutes(self, minute: int) -> str:
        """Vingt et une."""
        return self.cardinal(minute, "f")

    def seconds(self, second: int) -> str:
        """Et cinq secondes."""
        return f" et {self.cardinal(second, 'f')} secondes"

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

    def _ordinal(self, match: re.Match[str]) -> str:
        return self.ordinal(int(match[1]), "f" if match[2].startswith("r") else "m")


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
    first_day = "primo"
    minute_joiner = " e "
    clock_words = "ore|alle|dalle|all[ae] ore"
    # 3°, 2ª
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,4})\s?(º|ª|°(?!\s?[CF]))")
    percent = Noun.of("per cento", "")
    scales = ("mila", "milione", "milioni", "miliardo", "miliardi")
    scale_joiner = " di "
    money_joiner = " e "
    currencies = moneys("""
        € EUR = euro m; centesimo/centesimi m
        $ USD = dollaro/dollari m; centesimo/centesimi m
        £ = sterlina/sterline f; penny/pence m
        ¥ = yen m
    """)
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
        "Ing.": "ingegner", "Avv.": "avvocato", "ecc.": "eccetera", "ad es.": "ad esempio",
        "p. es.": "per esempio", "n.#": "numero", "pag.": "pagina", "tel.": "telefono",
        "ca.": "circa", "S.p.A.": "società per azioni", "a.C.": "avanti Cristo",
        "d.C.": "dopo Cristo", "Dr.": "dottor",
    }  # fmt: skip
    fractions = {"½": "un mezzo", "¼": "un quarto", "¾": "tre quarti"}

    def cardinal(self, number: int, gender: str = "") -> str:
        """Uno where it counts nothing, un before a masculine noun; ventuno stays whole."""
        rules = {"m": "cardinal-masculine", "f": "cardinal-feminine"}.get(gender, "numbering")
        return spell("it", number, rules if number == 1 else "numbering")

    def gender_before(self, after: str) -> str:
        """One agrees with the noun."""
        found = _WORD_BEHIND.match(after)
        if found is None or found[1] in _NO_NOUNS:
            return ""
        return "f" if found[1].endswith("a") else "m" if found[1].endswith(("o", "e")) else ""

    def read_times(self, text: str) -> str:
        """20:15 h."""
        return super().read_times(_HOURS_SIGN.sub(r"\1:\2", text))

    def hours(self, hour: int) -> str:
        """One is feminine: l'una."""
        return self.cardinal(hour, "f" if hour == 1 else "")

    def seconds(self, second: int) -> str:
        """E cinque secondi."""
        return f" e {self.cardinal(second)} secondi"

    def _ordinal(self, match: re.Match[str]) -> str:
        return self.ordinal(int(match[1]), "f" if match[2] == "ª" else "m")


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
    date_joiner, first_day = " de ", "primeiro"
    clock, minute_joiner = _HOURS, " e "
    # 2º, 3ª
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,4})\.?(º|ª|°(?!\s?[CF])|(?<=\.)[oa]\b)")
    percent = Noun.of("por cento")
    scales = ("mil", "milhão", "milhões", "bilhão", "bilhões", "mil milhões")
    scale_joiner = " de "
    money_joiner = " e "
    currencies = moneys("""
        R$ BRL = real/reais m; centavo/centavos m
        € EUR = euro/euros m; cêntimo/cêntimos m
        $ US$ USD = dólar/dólares m; centavo/centavos m
        £ = libra/libras f; pêni/pence m
        ¥ = iene/ienes m
    """)
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
        "pág.": "página", "Profa.": "professora", "Prof.": "professor", "Av.": "avenida",
        "tel.": "telefone", "aprox.": "aproximadamente", "a.C.": "antes de Cristo",
        "d.C.": "depois de Cristo", "Exmo.": "excelentíssimo", "Ltda.": "limitada",
        "Eng.": "engenheiro",
    }  # fmt: skip
    fractions = {"½": "meio", "¼": "um quarto", "¾": "três quartos"}

    def gender_before(self, after: str) -> str:
        """One, two and hundreds agree with the noun."""
        return _iberian_gender(after)

    def read_times(self, text: str) -> str:
        """14:30 h, then 14h30 and 9h."""
        return super().read_times(_HOURS_SIGN.sub(r"\1:\2", text))

    def clock_time(self, at: ClockTime, match: re.Match[str]) -> str:
        """14h30; 9h are nine hours."""
        if match[2]:
            return self.time(at)
        return f"{self.hours(at.hour)} {'hora' if at.hour == 1 else 'horas'}"

    def hours(self, hour: int) -> str:
        """Hours are feminine: duas e trinta."""
        return self.cardinal(hour, "f")

    def seconds(self, second: int) -> str:
        """E cinco segundos."""
        return f" e {self.cardinal(second)} segundos"

    def _ordinal(self, match: re.Match[str]) -> str:
        return self.ordinal(int(match[1]), "f" if match[2] in "ªa" else "m")
