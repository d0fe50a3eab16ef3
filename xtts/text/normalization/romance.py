"""Rules for Spanish, French, Italian and Portuguese."""

import re
from typing import ClassVar

from xtts.text.normalization.clock import ClockTime
from xtts.text.normalization.language_rules import LanguageRules
from xtts.text.normalization.numbers import (
    LONG_GROUPS,
    NEVER,
    Noun,
    Pattern,
    WrittenNumber,
    marks,
    moneys,
    nouns,
    pairs,
    scale_words,
    spell,
    words,
)
from xtts.text.normalization.numerals import ROMAN
from xtts.text.normalization.units import science_units

_WORD_AFTER = re.compile(r"\s([a-zà-ÿ]{3,30})(?!\w)")
# French 18h30, 18 h 30, 18h; Portuguese 9h15.
_HOUR_WITH_H = re.compile(r"(?<![\w.,:])([0-9]{1,2})\s?[hH](?:\s?([0-9]{2})(?:\s?min\b)?)?(?![\w])")
_HOURS_RANGE = re.compile(
    r"(?<![\w.,:/-])([0-9]{1,2})()\s?[–—-]\s?"
    r"(?=[0-9]{1,2}\s?[hH](?:[0-9]{2})?(?!\w)|[0-9]{1,2}:[0-5][0-9](?![\d:]))"
)
_HOURS_SIGN = re.compile(r"(?<![\w.,:])([0-9]{1,2})[:.]([0-9]{2})\s?(?:hs?|hrs)\b\.?")
# Masculine nouns whose ending is feminine or could be a verb's, in Spanish and Portuguese.
_MASCULINE_NOUNS = frozenset(
    "día días dia dias problema problemas programa programas sistema sistemas tema temas mapa "
    "mapas clima climas idioma idiomas poema poemas planeta planetas gramas quilogramas cinema "
    "cinemas telegrama telegramas drama dramas esquema esquemas síntoma síntomas "
    "sintoma sintomas tren plan pan examen volumen almacén andén huracán capitán gen".split()
)
_FEMININE_ENDINGS = tuple(
    "a as ción ciones dad dades ção ções dade gem gens sión siones tión tiones gión giones nión "
    "niones".split()
)
# Without -an and -en, in which verbs end.
_MASCULINE_ENDINGS = ("o", "os", "s", "e", "l", "r", "ón", "ín", "z", "j", "b", "t", "i", "ú")
_FEMININE_NUMERALS = {"un ": "una ", "um ": "uma ", "dois ": "duas "}
# Feminine nouns whose ending does not show it, in Spanish and Portuguese.
_FEMININE_NOUNS = frozenset(
    "vez veces vezes noche noches noite noites tarde tardes parte partes mujer mujeres mulher "
    "mulheres clase clases calle calles llave llaves chave chaves flor flores mano manos mão mãos "
    "voz voces vozes luz luces luzes ley leyes lei leis red redes rede torre torres fase fases "
    "frase frases mãe mães serie series série séries imagen imágenes orden órdenes nube nubes "
    "sede sedes base bases pared paredes parede razón razones raíz raíces nariz narices cruz cruces "
    "nuez nueces paz".split()
)
_NOT_NOUNS = frozenset(
    "para era eran contra cada hasta nada ahora hora-a mas más mais menos por que con com del dos "
    "das und e y o u a en em é sin según casi así aquí allí".split()
)


# Words after degrees that do not name what is numbered.
_AFTER_DEGREES = (
    r"\s(?:bajo|sobre|abaixo|acima|norte|este|oeste|leste|nord|ovest|cent|celsius|fahrenheit|máx|mín|max|min|"
    r"lati|long|hacia|para|desde|entre|respecto|quando|cuando|durante|hasta|pero|sotto|sopra|finché|oggi|"
    r"all|nell|dell)"
)


def _ordinal_degree_after(articles: str) -> Pattern:
    """The pattern of `ordinal_degree`, after an article or before what is often numbered."""
    return re.compile(
        rf"((?<!\w)(?i:{articles})\s[0-9]{{1,3}})°(?=\s[a-zà-ÿ]{{4}})(?!{_AFTER_DEGREES})"
        r"|((?<![\w.,])[0-9]{1,3})°(?=\s(?:piso|lugar|puesto|grado|año|mes|aniversario|capítulo|artículo|"
        r"premio|trimestre|semestre|andar|colocado|turno|día|dia|ano|mês|aniversário|artigo|prêmio)(?!\w))"
    )


class RomanceRules(LanguageRules):
    """Common rules of the four languages: two genders, and hours are feminine."""

    cardinals = {"m": "cardinal-masculine", "f": "cardinal-feminine"}
    ordinals = {"m": "ordinal-masculine", "f": "ordinal-feminine"}
    hour_gender = "f"
    clock_sign = _HOURS_SIGN
    feminine_marks: ClassVar[tuple[str, ...]] = ("ª", "a")
    scale_joiner = " de "
    money_joiner = " e "
    part_joiner = " de "
    # The numeral (group 1) of a world war.
    world_wars: ClassVar[Pattern] = NEVER
    # A ° that marks an ordinal, and what precedes it (group 1 or 2).
    ordinal_degree: ClassVar[Pattern] = NEVER

    def _with_readable_signs(self, text: str) -> str:
        """Also º where ° is written for it: el 2° piso."""
        text = super()._with_readable_signs(text)
        return self.ordinal_degree.sub(r"\1\2º", text) if "°" in text else text

    def read_roman(self, text: str) -> str:
        """La segunda Guerra Mundial."""
        return super().read_roman(self.world_wars.sub(lambda m: f"{self.ordinal(len(m[1]), 'f')} ", text))

    def mixed_amount_words(self, number: int, noun: Noun, top: int, bottom: int) -> str:
        """Dos horas y media, deux kilogrammes et quart: the fraction follows the unit."""
        amount = WrittenNumber(str(number))
        half = self.halves[noun.gender or "m"].split()[-1] if (top, bottom) == (1, 2) else ""
        half += "e" if self.code == "fr" and half and noun.gender == "f" else ""
        counted = f"{self.parsed_number_words(amount, noun.gender)} {self.noun_form(amount, noun)}"
        return self.mixed.format(counted, half or self.part_words(top, bottom))


class IberianRules(RomanceRules):
    """Spanish and Portuguese: one, two and hundreds agree with the noun."""

    world_wars = re.compile(r"(?<![\w'’])(I{1,3})\s(?=guerra mundial(?!\w))", re.I)
    last_ordinal_ruler = 10

    def half_gender(self, after: str) -> str:
        """Media taza, meio copo."""
        return self.gender_of_noun("1", after)

    def bare_part_words(self, match: re.Match[str], top: int, bottom: int) -> str:
        """Dos quintas partes."""
        words = super().bare_part_words(match, top, bottom)
        if not re.match(r"\spartes?\b", match.string[match.end() :]):
            return words
        words = re.sub(
            "^(?:un|um|dois) ", lambda m: _FEMININE_NUMERALS[m[0]], words.replace("tercio", "tercero")
        )
        return re.sub(r"o(s?)$", r"a\1", words)

    def gender_of_noun(self, amount: str, after: str) -> str:
        """The gender of the following noun, by its ending."""
        match = _WORD_AFTER.match(after)
        word = match[1] if match else ""
        if not word or word in _NOT_NOUNS:
            return ""
        feminine = word.endswith(_FEMININE_ENDINGS) or word in _FEMININE_NOUNS
        if feminine and word not in _MASCULINE_NOUNS:
            return "f"
        return "m" if word.endswith(_MASCULINE_ENDINGS) or word in _MASCULINE_NOUNS else ""


class SpanishRules(IberianRules):
    """Spanish; decimal commas and points are both read."""

    date_words = "el|del|al|día|dia"
    ordinal_degree = _ordinal_degree_after("el|al|del")
    code = "es"
    spaced_groups = LONG_GROUPS
    # Uno alone, un before a masculine noun.
    cardinals = {**RomanceRules.cardinals, "": "numbering"}
    point, minus, plus, to = "coma", "menos", "más", "a"
    calling_words = "tel|teléfono|telefono|llame|llama|llamar|llámame|número|numero|móvil|fax"
    months = words("""enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre
        diciembre""")
    short_months = "ene feb/febr mar* abr may jun jul ago*/agto sep/sept/set* oct nov dic"
    date_form, full_date_form = "{day} de {month}", "{day} de {month} de {year}"
    clock_words = "las|la"
    zero_minute, second_form = "cero ", " y {} segundos"
    # 2ª, 1.º, 3.er
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,4})\.?(º|ª|°(?!\s?[CF])|er\b|(?<=\.)[oa]\b)")
    percent = Noun.of("por ciento", "")
    scales = ("mil", "millón", "millones", "billón", "billones", "mil millones")
    thousands = ("mil",)
    scale_marks = marks("mill. mills. mln = 6")
    money_marks = marks("M = 6, MM = 6")
    scale_nouns = scale_words("millón/millones, mil millones, billón/billones")
    denominators = "tercio/-s quinto/-s sexto/-s séptimo/-s octavo/-s noveno/-s décimo/-s"
    slash, mixed, mixed_half = "sobre", "{} y {}", "{} y medio"
    number_sign = "número"
    powers = ("al cuadrado", "al cubo", "elevado a {}")
    money_joiner = " con "
    currencies = moneys("""€ EUR = euro/-s; céntimo/-s, $ US$ USD = dólar/-es; centavo/-s,
        £ = libra/-s f; penique/-s, ¥ = yen/-es""")
    units = science_units("es") | nouns("""kg = kilogramo/-s, g = gramo/-s, mg = miligramo/-s,
        t = tonelada/-s f,
        km = kilómetro/-s, m = metro/-s, cm = centímetro/-s, mm = milímetro/-s,
        km/h = kilómetro/-s + por hora, m/s = metro/-s + por segundo,
        km² = kilómetro cuadrado/kilómetros cuadrados, m² = metro cuadrado/metros cuadrados,
        m³ = metro cúbico/metros cúbicos, ha = hectárea/-s f, dB = decibelio/-s, l = litro/-s,
        ml = mililitro/-s, h = hora/-s f,
        min = minuto/-s, s = segundo/-s, °C ℃ ºC = grado/-s + celsius, °F = grado/-s + fahrenheit,
        ° = grado/-s, kW = kilovatio/-s, kWh = kilovatio/-s + hora, MB = megabyte/-s,
        GB = gigabyte/-s, MiB = mebibyte/-s, GiB = gibibyte/-s""")
    abbreviations = pairs("""p. ej. = por ejemplo, etc. = etcétera, Ud. = usted, Uds. = ustedes,
        Vd. = usted, núm. = número, n.º = número, nº = número, n.° = número, n° = número,
        pág. = página, págs. = páginas,
        Srta. = señorita, Sres. = señores, Dña. = doña, Prof. = profesor, Profa. = profesora,
        art.# = artículo, arts.# = artículos, apdo.# = apartado,
        EE. UU. = Estados Unidos, aprox. = aproximadamente, Avda. = avenida,
        a. C. = antes de Cristo, d. C. = después de Cristo, C/ = calle, tel. = teléfono,
        fig.# = figura, cap.# = capítulo, vol.# = volumen, p.# = página, pp.# = páginas, s.# = siglo,
        Cía. = compañía""")
    halves = {"m": "medio", "f": "media"}
    fractions = {"½": "medio", "¼": "un cuarto", "¾": "tres cuartos"}
    rulers = """Felipe Carlos Fernando Alfonso Juan Pablo Pío Benedicto León Gregorio Luis Enrique
        Eduardo Jorge Jacobo Ricardo Guillermo Federico Napoleón Alejandro Nicolás Pedro Iván Sancho
        Ramiro Jaime Amadeo Francisco Leopoldo Alberto Clemente Inocencio Urbano Sixto Julio Adriano
        Otón Rodolfo Maximiliano José Ramsés |
        Isabel María Catalina Juana Margarita Cristina Beatriz Urraca Ana"""

    def read_dates(self, text: str) -> str:
        """The first of May, if it is written so."""
        return super().read_dates(_FIRST_OF_MONTH.sub("primero", text))

    def _read_ordinal(self, match: re.Match[str]) -> str:
        """Primer and tercer before a masculine noun."""
        number, mark = int(match[1]), match[2]
        before_noun = re.match(r"\s[a-záéíóúñ]", match.string[match.end() :])
        short = before_noun and number % 10 in (1, 3) and number not in (11, 13)
        if mark == "er" or (short and mark not in self.feminine_marks):
            return spell("es", number, "ordinal-masculine-adjective")
        return super()._read_ordinal(match)


_FIRST_OF_MONTH = re.compile(
    r"(?<![\w.,])1\.?º(?=\sde\s(?:enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|"
    r"noviembre|diciembre)(?!\w))"
)


class FrenchRules(RomanceRules):
    """French of France."""

    date_words = "le|du|au"
    code = "fr"
    point, minus, to = "virgule", "moins", "à"
    calling_words = "tél|tel|téléphone|appelez|appeler|appelle|numéro|portable|fax"
    months = words("""janvier février mars avril mai juin juillet août septembre octobre novembre
        décembre""")
    short_months = "janv/jan fév/févr mars* avr - juin* juil/juill août* sept* oct nov déc"
    first_day = "premier"
    clock, clock_sign = _HOUR_WITH_H, NEVER
    minute_gender, second_form = "f", " et {} secondes"
    # 2e, 1re, 3ème
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,6})(er|re|ère|ème|eme|e|nde?|º|ᵉ)(?!\w)")
    feminine_marks = ("re", "ère", "nde")
    percent = Noun.of("pour cent")
    scales = ("mille", "million", "millions", "milliard", "milliards")
    thousands = ("mille",)
    scale_marks = marks("mio Mio mln = 6, Md Mds md mds Mrd mrd = 9")
    scale_nouns = scale_words("million/-s, milliard/-s, billion/-s")
    denominators = "tiers cinquième/-s sixième/-s septième/-s huitième/-s neuvième/-s dixième/-s"
    slash, mixed, mixed_half = "sur", "{} et {}", "{} et demi"
    number_sign = "numéro"
    powers = ("au carré", "au cube", "puissance {}")
    clock_range = _HOURS_RANGE
    money_joiner = " et "
    currencies = moneys("""€ EUR = euro/-s; centime/-s, $ = dollar/-s; cent/-s,
        US$ USD = dollar américain/dollars américains; cent/-s, £ = livre/-s f; penny/pence,
        CHF = franc suisse/francs suisses; centime/-s, ¥ = yen/-s""")
    units = science_units("fr") | nouns("""kg = kilogramme/-s, g = gramme/-s, mg = milligramme/-s,
        t = tonne/-s f,
        km = kilomètre/-s, m = mètre/-s, cm = centimètre/-s, mm = millimètre/-s,
        km/h = kilomètre/-s + par heure, m/s = mètre/-s + par seconde,
        km² = kilomètre carré/kilomètres carrés, m² = mètre carré/mètres carrés,
        m³ = mètre cube/mètres cubes, ha = hectare/-s, dB = décibel/-s, l L = litre/-s,
        ml = millilitre/-s, min mn = minute/-s f,
        s = seconde/-s f, °C ℃ = degré/-s + celsius, °F = degré/-s + fahrenheit, ° = degré/-s,
        kW = kilowatt/-s, kWh = kilowattheure/-s, Mo = mégaoctet/-s, Go = gigaoctet/-s,
        Mio = mébioctet/-s, Gio = gibioctet/-s,
        MB = mégaoctet/-s, GB = gigaoctet/-s""")
    abbreviations = pairs("""M. = monsieur, Mme = madame, Mlle = mademoiselle, MM. = messieurs,
        Mmes = mesdames, Dr = docteur, Pr = professeur, p. ex. = par exemple, etc. = et cetera,
        c.-à-d. = c'est-à-dire, n° = numéro, nº = numéro, n.° = numéro, n.º = numéro,
        env. = environ, av. = avenue, bd = boulevard,
        av. J.-C. = avant Jésus-Christ, apr. J.-C. = après Jésus-Christ, St = saint, Ste = sainte,
        Mgr = monseigneur, Cie = compagnie, tél. = téléphone, fig.# = figure,
        chap.# = chapitre, vol.# = volume, p.# = page,
        max. = maximum, min. = minimum, art.# = article, al.# = alinéa""")
    halves = {"m": "un demi", "f": "une demi"}
    fractions = {"½": "un demi", "¼": "un quart", "¾": "trois quarts"}
    # XIXe siècle
    roman_ordinal, roman_form = re.compile(rf"(?<![\w'’])({ROMAN})(?=(?:e|ème|er|re|ère|ᵉ)(?![\w'’]))"), "{}"
    rulers = """Louis Henri Charles François Philippe Napoléon Jean Paul Pie Benoît Léon Grégoire Édouard
        Georges Jacques Richard Guillaume Frédéric Nicolas Pierre Ivan Alphonse Ferdinand Léopold
        Albert Clovis Robert Clément Innocent Urbain Sixte Jules Adrien Ramsès |
        Élisabeth Elisabeth Marie Catherine Isabelle Marguerite Anne Christine"""
    last_ordinal_ruler = 1

    def gender_of_noun(self, amount: str, after: str) -> str:
        """One agrees with a feminine noun: vingt et une filles."""
        match = _WORD_AFTER.match(after) if amount.endswith("1") else None
        if match is None:
            return ""
        noun = match[1].removesuffix("s")
        return "f" if noun in _FRENCH_FEMININE_NOUNS or _FRENCH_FEMININE_ENDINGS.search(noun) else ""

    def hours(self, hour: int) -> str:
        """Dix-huit heures."""
        return f"{super().hours(hour)} {'heure' if hour < 2 else 'heures'}"

    def phone(self, text: str) -> str:
        """Digits in pairs, if they are written in pairs."""
        parts = re.findall(r"\d+", text)
        if sum(len(part) == 2 for part in parts) < 4:
            return super().phone(text)
        plus = "plus " if text.startswith("+") else ""
        return plus + ", ".join(
            self.cardinal(int(part)) if len(part) == 2 and part[0] != "0" else self.digits(part)
            for part in parts
        )

    def read(self, text: str) -> str:
        """De is d' before a vowel; the short form of a century; 24h/24, 7j/7."""
        text = _FRENCH_CENTURY.sub("siècle", text)
        text = _DAYS_OF_WEEK.sub(r"\1 jours sur ", _HOURS_OF_DAY.sub(r"\1 sur ", text))
        return re.sub(r"(illions?|illiards?) de (?=euros)", r"\1 d'", super().read(text))

    def noun_form(self, number: WrittenNumber, noun: Noun) -> str:
        """The plural from two on: 1,5 kilogramme."""
        return noun.one if number.value < 2 else noun.few


# XIXe s.
_FRENCH_CENTURY = re.compile(r"(?<=(?<=[IVX])[eᵉ] )s\.(?!\w)")
# 24h/24, 7j/7
_HOURS_OF_DAY = re.compile(r"(?<![\w.,/])([0-9]{1,2}\s?[hH])\s?/\s?(?=24(?!\d))")
_DAYS_OF_WEEK = re.compile(r"(?<![\w.,/])([2-7])\s?(?:[jJ]|jours)\s?/\s?(?=7(?!\d))")
# Feminine nouns that are counted often, and endings of others.
_FRENCH_FEMININE_NOUNS = frozenset(
    "fille femme heure minute seconde semaine personne page fois voiture maison chose place table chaise "
    "lettre porte fenêtre chambre rue ville voix nuit tasse tonne livre règle ligne classe école dame "
    "reine sœur mère main tête dent boîte carte photo image pomme orange rose fleur île église tour route "
    "étoile équipe chanson raison partie série langue marche victoire défaite vie mort part fin "
    "couche coupe dose goutte copie erreur couleur peur piste plage pièce ferme lampe lune".split()
)
_FRENCH_FEMININE_ENDINGS = re.compile(
    "(?:[ts]ion|ette|ance|ence|esse|ité|ille|ière|aine|euse|trice|(?<!mus)(?<!lyc)ée)$"
)


class ItalianRules(RomanceRules):
    """Italian."""

    date_words = "il|dal|al|del"
    code = "it"
    spaced_groups = LONG_GROUPS
    point, minus, plus, to = "virgola", "meno", "più", "a"
    calling_words = "tel|telefono|chiami|chiama|chiamate|chiamare|chiami lo|numero|cellulare|fax"
    months = words("""gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre
        novembre dicembre""")
    short_months = "gen/genn feb/febbr mar* apr mag/magg giu lug/lugl ago* set*/sett ott nov dic"
    first_day = "primo"
    minute_joiner, second_form = " e ", " e {} secondi"
    clock_words = "ore|alle|dalle|all[ae] ore"
    # 3°, 2ª
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,4})\s?(º|ª|°(?!\s?[CF]))")
    percent = Noun.of("per cento", "")
    scales = ("mila", "mille", "milione", "milioni", "miliardo", "miliardi")
    thousands = ("mila", "mille")
    scale_marks = marks("mln mln. mio = 6, mld mld. mrd mrd. = 9")
    scale_nouns = scale_words("milione/milioni, miliardo/miliardi, bilione/bilioni")
    scale_joiner = " di "
    denominators = """terzo/terzi quinto/quinti sesto/sesti settimo/settimi ottavo/ottavi nono/noni
        decimo/decimi"""
    slash, mixed, mixed_half = "su", "{} e {}", "{} e mezzo"
    number_sign = "numero"
    powers = ("al quadrato", "al cubo", "elevato alla {}")
    currencies = moneys("""€ EUR = euro; centesimo/centesimi,
        $ US$ USD = dollaro/dollari; centesimo/centesimi, £ = sterlina/sterline f; penny/pence,
        ¥ = yen""")
    units = science_units("it") | nouns("""kg = chilogrammo/chilogrammi, g = grammo/grammi,
        mg = milligrammo/milligrammi,
        t = tonnellata/tonnellate f, km = chilometro/chilometri, m = metro/metri,
        cm = centimetro/centimetri, mm = millimetro/millimetri,
        km/h = chilometro orario/chilometri orari, m/s = metro/metri + al secondo,
        km² = chilometro quadrato/chilometri quadrati, m² mq = metro quadrato/metri quadrati,
        m³ mc = metro cubo/metri cubi, ha = ettaro/ettari, dB = decibel, l = litro/litri,
        ml = millilitro/millilitri, h = ora/ore f,
        min = minuto/minuti, s = secondo/secondi, °C ℃ ºC = grado/gradi + celsius,
        °F = grado/gradi + fahrenheit, ° = grado/gradi, kW = kilowatt, kWh = kilowattora, MB = megabyte,
        GB = gigabyte, MiB = mebibyte, GiB = gibibyte""")
    abbreviations = pairs("""Sig. = signor, Sig.ra = signora, Sig.na = signorina, Dott. = dottor,
        Dott.ssa = dottoressa, Prof. = professor, Prof.ssa = professoressa, Ing. = ingegner,
        Avv. = avvocato, ecc. = eccetera, ad es. = ad esempio, p. es. = per esempio, n.# = numero,
        n° = numero, nº = numero, n.° = numero, n.º = numero,
        pag. = pagina, tel. = telefono, ca. = circa, S.p.A. = società per azioni,
        a.C. = avanti Cristo, d.C. = dopo Cristo, Dr. = dottor, art.# = articolo,
        artt.# = articoli, fig.# = figura, cap.# = capitolo,
        vol.# = volume, p.# = pagina, pp.# = pagine, sec.# = secolo""")
    halves = {"m": "mezzo", "f": "mezza"}
    part_joiner = " di "
    fractions = {"½": "un mezzo", "¼": "un quarto", "¾": "tre quarti"}
    roman_ordinal, roman_form = re.compile(rf"(?<!\w)({ROMAN})°?\s(?=secol[oi]\b)"), "{}º "
    world_wars = re.compile(r"(?<![\w'’])(I{1,3})\s(?=guerra mondiale(?!\w))", re.I)
    rulers = """Luigi Carlo Emanuele Umberto Amedeo Enrico Giorgio Edoardo Giacomo Guglielmo Federico
        Napoleone Alessandro Nicola Pietro Ivan Filippo Ferdinando Francesco Giuseppe Leopoldo
        Massimiliano Rodolfo Ottone Giovanni Paolo Pio Benedetto Leone Gregorio Clemente Innocenzo
        Urbano Sisto Giulio Adriano Alfonso Ramses Corrado Roberto |
        Elisabetta Maria Caterina Giovanna Margherita Isabella Anna Cristina"""

    def _with_readable_signs(self, text: str) -> str:
        """Also º for each ° that is not a degree: 2° piano, but a 30°."""
        return _ITALIAN_DEGREE.sub(self._read_degree, super()._with_readable_signs(text))

    def _read_degree(self, match: re.Match[str]) -> str:
        before = match.string[max(0, match.start() - 20) : match.start()]
        is_degree = match[2] is not None and _DEGREES_BEFORE.search(before)
        return match[0] if is_degree else f"{match[1]}º"

    def half_gender(self, after: str) -> str:
        """Mezza tazza, mezzo bicchiere."""
        return self.gender_of_noun("1", after)

    def per_unit_words(self, form: str, word: str, gender: str) -> str:
        """All'ora, alla settimana, allo studente, al mese."""
        if word[0].casefold() in "aeiouàèéìòù":
            return f"all'{word}"
        if gender == "f" or (not gender and word.endswith("a")):
            return f"alla {word}"
        return f"{'allo' if _TAKES_LO.match(word) else 'al'} {word}"

    def cardinal(self, number: int, gender: str = "") -> str:
        """Uno alone, un before a masculine noun; ventuno is not shortened."""
        rules = self.cardinals.get(gender, "numbering")
        return spell("it", number, rules if number == 1 else "numbering")

    def gender_of_noun(self, amount: str, after: str) -> str:
        """One agrees with the noun."""
        match = _WORD_AFTER.match(after)
        if match is None or match[1] in _NOT_NOUNS:
            return ""
        return "f" if match[1].endswith("a") else "m" if match[1].endswith(("o", "e")) else ""


_TAKES_LO = re.compile("s[^aeiou]|z|ps|gn|pn|x|y", re.IGNORECASE)
# A number before °. Group 2 is there if it has two figures or more and no noun follows. No angle, no unit.
_ITALIAN_DEGREE = re.compile(
    r"(?<![\w.,])([0-9]{1,4})\s?°(?!\s?[CF]|\s[0-9]{1,2}\smin(?!\w)|\s(?:nord|sud|est|ovest)(?!\w))"
    rf"((?<=[0-9]{{2}}°)(?:(?!\s[a-zà-ÿ]{{4}})|(?={_AFTER_DEGREES})))?"
)
# The words before a number that is not an ordinal.
_DEGREES_BEFORE = re.compile(
    r"(?<!\w)(?:di|a|ad|i|gli|sono|fa|fanno|circa|oltre|quasi|sotto|sopra|tra|fra|da|oggi|domani|"
    r"(?:tra|fra|di|a)\s[0-9]{1,3}°\s[eo])\s$",
    re.I,
)


class PortugueseRules(IberianRules):
    """Portuguese; Brazilian where the variants differ."""

    date_words = "dia|dias"
    ordinal_degree = _ordinal_degree_after("o|ao|do|no|pelo")
    code = "pt"
    spaced_groups = LONG_GROUPS
    point, minus, plus, to = "vírgula", "menos", "mais", "a"
    calling_words = "tel|telefone|ligue|ligar|liga|número|celular|telemóvel|fax"
    months = words("""janeiro fevereiro março abril maio junho julho agosto setembro outubro
        novembro dezembro""")
    short_months = "jan fev mar* abr mai* jun jul ago* set* out* nov dez*"
    date_form, full_date_form = "{day} de {month}", "{day} de {month} de {year}"
    first_day = "primeiro"
    clock, minute_joiner, second_form = _HOUR_WITH_H, " e ", " e {} segundos"
    # 2º, 3ª
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,4})\.?(º|ª|°(?!\s?[CF])|(?<=\.)[oa]\b)")
    percent = Noun.of("por cento")
    scales = ("mil", "milhão", "milhões", "bilhão", "bilhões", "trilhão", "trilhões", "mil milhões")
    thousands = ("mil",)
    scale_marks = marks("mi mi. mio = 6, bi bi. = 9, tri tri. = 12")
    scale_nouns = scale_words("milhão/milhões, bilhão/bilhões, trilhão/trilhões")
    denominators = "terço/-s quinto/-s sexto/-s sétimo/-s oitavo/-s nono/-s décimo/-s"
    slash, mixed, mixed_half = "sobre", "{} e {}", "{} e meio"
    number_sign = "número"
    powers = ("ao quadrado", "ao cubo", "elevado a {}")
    clock_range = _HOURS_RANGE
    currencies = moneys("""R$ BRL = real/reais; centavo/-s, € EUR = euro/-s; cêntimo/-s,
        $ US$ USD = dólar/-es; centavo/-s, £ = libra/-s f; pêni/pence, ¥ = iene/-s""")
    units = science_units("pt") | nouns("""kg = quilograma/-s, g = grama/-s, mg = miligrama/-s,
        t = tonelada/-s f,
        km = quilômetro/-s, m = metro/-s, cm = centímetro/-s, mm = milímetro/-s,
        km/h = quilômetro/-s + por hora, m/s = metro/-s + por segundo,
        km² = quilômetro quadrado/quilômetros quadrados, m² = metro quadrado/metros quadrados,
        m³ = metro cúbico/metros cúbicos, ha = hectare/-s, dB = decibel/decibéis, l L = litro/-s,
        ml = mililitro/-s, min = minuto/-s,
        s = segundo/-s, °C ℃ ºC = grau/-s + celsius, °F = grau/-s + fahrenheit, ° = grau/-s,
        kW = quilowatt/-s, kWh = quilowatt-hora/quilowatts-hora, MB = megabyte/-s,
        GB = gigabyte/-s, MiB = mebibyte/-s, GiB = gibibyte/-s""")
    abbreviations = pairs("""p. ex. = por exemplo, etc. = etcétera, nº = número, n.º = número,
        n° = número, n.° = número,
        pág. = página, Profa. = professora, Prof. = professor, Av. = avenida, tel. = telefone,
        aprox. = aproximadamente, a.C. = antes de Cristo, d.C. = depois de Cristo,
        Exmo. = excelentíssimo, Ltda. = limitada, Eng. = engenheiro, na R. = na rua,
        da R. = da rua, à R. = à rua, art.# = artigo, inc.# = inciso, fig.# = figura,
        cap.# = capítulo, vol.# = volume, p.# = página, pp.# = páginas,
        págs.# = páginas, apto.# = apartamento, apto# = apartamento, n.# = número,
        a.a. = ao ano, séc.# = século, Cia. = companhia, V. Exa. = vossa excelência,
        Ilmo. = ilustríssimo""")
    halves = {"m": "meio", "f": "meia"}
    fractions = {"½": "meio", "¼": "um quarto", "¾": "três quartos"}
    rulers = """Pedro João Paulo Afonso Sancho Fernando Duarte Manuel Filipe José Luís Carlos Miguel
        Henrique Jorge Eduardo Pio Bento Leão Gregório Napoleão Alexandre Nicolau Guilherme Frederico
        Ricardo Clemente Inocêncio Urbano Júlio Ramsés Francisco Leopoldo Alberto |
        Isabel Elizabeth Maria Catarina Joana Margarida Beatriz Ana"""

    def read(self, text: str) -> str:
        """1º/05/2023 is a date."""
        return super().read(_FIRST_DAY_OF_DATE.sub("1", text))

    def time(self, clock_time: ClockTime) -> str:
        """14h30; 9h are nine hours."""
        if clock_time.minute is not None:
            return super().time(clock_time)
        return f"{self.hours(clock_time.hour)} {'hora' if clock_time.hour == 1 else 'horas'}"


_FIRST_DAY_OF_DATE = re.compile(r"(?<!\w)1º(?=/[0-9]{1,2}/[0-9]{4})")
