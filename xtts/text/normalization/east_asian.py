"""Rules for Chinese, Japanese and Korean: no spaces, and a number may touch any word."""

import re
from functools import cached_property

from xtts.text.normalization.language_rules import LanguageRules
from xtts.text.normalization.numbers import Noun, Step, WrittenNumber, moneys, nouns, spell


class EastAsianRules(LanguageRules):
    """Common rules of the three languages."""

    thousands_separator, spaced_groups, has_spaces, space, joining_characters = (
        ",",
        "",
        False,
        "",
        "0-9A-Za-z",
    )
    spells_decimals, minute_joiner = True, ""
    year_sign, date_form, full_date_form = "年", "{month}月{day}日", "{year}年{month}月{day}日"
    hour_form, minute_form, second_form = "{}時", "{}分", "{}秒"
    fraction_of = "分の"

    def read(self, text: str) -> str:
        """Reads a text and removes the spaces that the steps added."""
        words = _SPACE_BETWEEN_NUMBERS.sub("、", super().read(_WAVE_DASH.sub("–", text)))
        return re.sub(r"(?<=[\u3000-\u9fff]) (?=[\u3000-\u9fff])", "", words)

    @cached_property
    def read_fractions(self) -> Step:
        """3/4, the denominator first."""
        read_others = super().read_fractions
        return lambda text: _FRACTION.sub(lambda m: self.part_words(int(m[1]), int(m[2])), read_others(text))

    def part_words(self, top: int, bottom: int) -> str:
        """四分の三."""
        return f"{self.cardinal(bottom)}{self.fraction_of}{self.cardinal(top)}"

    @cached_property
    def read_years(self) -> Step:
        """1999年."""
        pattern = re.compile(rf"(?<![0-9.,])([12][0-9]{{3}})\s?(?={self.year_sign}(?!{self._duration_word}))")
        years = re.compile(rf"(?<![0-9.,])([12][0-9]{{3}})\s?[-–—~]\s?([12][0-9]{{3}})(?={self.year_sign})")
        return lambda text: pattern.sub(
            lambda m: self.year(int(m[1])),
            years.sub(lambda m: f"{self.year(int(m[1]))}{self.to}{self.year(int(m[2]))}", text),
        )

    # Words after the sign of a year that make it a duration.
    _duration_word = "間"


# The space between two numbers, which would be one without it.
_SPACE_BETWEEN_NUMBERS = re.compile(
    "(?<=[〇零一二三四五六七八九十百千万億亿兆]) (?=[〇零一二两三四五六七八九十百千])"
)
# 9:00〜17:00
_WAVE_DASH = re.compile(r"(?<=[0-9%])\s?[~〜～]\s?(?=[$€£¥￥₩]?[0-9])")
_FRACTION = re.compile(r"(?<![\w./])([0-9]{1,3})/([1-9][0-9]{0,2})(?![\d/])", re.ASCII)


class ChineseRules(EastAsianRules):
    """Mandarin, simplified characters."""

    code = "zh"
    cardinals = {"m": "cardinal"}
    digit_rules, zero_digit = "cardinal", "零"
    point, minus, plus, to = "点", "负", "加", "到"
    hour_form, zero_minute = "{}点", "零"
    fraction_of = "分之"
    mixed, powers = "{}又{}", ("的平方", "的立方", "的{}次方")
    _duration_word = "间"
    calling_words = "电话|拨打|致电|手机|热线"
    percent = Noun.of("百分之")
    currencies = moneys("""¥ ￥ RMB CNY = 元, $ US$ USD = 美元, € EUR = 欧元, £ = 英镑, ₩ = 韩元""")
    scales, scale_joiner = ("万", "亿", "万亿"), ""
    units = nouns("""kg = 公斤, g = 克, mg = 毫克, t = 吨, km = 公里, m = 米, cm = 厘米, mm = 毫米,
        km/h = 公里每小时, m/s = 米每秒, km² = 平方公里, m² = 平方米, m³ = 立方米, l L = 升,
        ml mL = 毫升, h = 小时, min = 分钟, s = 秒, °C ℃ = 摄氏度, °F = 华氏度, ° = 度, kW = 千瓦,
        kWh = 千瓦时""")

    def year(self, number: int) -> str:
        """Digit by digit."""
        return self.digits(str(number))

    def phone(self, text: str) -> str:
        """One is 幺 in a telephone number, because 一 (yī) and 七 (qī) are easily confused."""
        return super().phone(text).replace("一", "幺")

    def read_ordinals(self, text: str) -> str:
        """Reads ordinals and counters; two is 两 before a counter."""
        return _TWO_BEFORE_COUNTER.sub("两", text)

    def percentage_words(self, amount: str) -> str:
        """百分之十四."""
        sign, first, last = self.parse_amount(amount)
        range_end = f"{self.to}{self.percent.one}{self.number_words(last)}" if last else ""
        return f"{sign}{self.percent.one}{self.number_words(first)}{range_end}"

    def counted_words(self, amount: str, noun: Noun) -> str:
        """Reads an amount; two is 两 before a noun, and degrees can be below zero."""
        spoken = super().counted_words(amount, noun)
        if amount == "2" and not noun.one.endswith("度"):
            spoken = f"两{noun.one}"
        if noun.one.endswith("度") and spoken.startswith(self.minus):
            return "零下" + spoken.removeprefix(self.minus)
        return spoken


_TWO_BEFORE_COUNTER = re.compile(
    r"(?<![0-9.,第第/-])2(?=[个只本张位名件条杯块斤天年岁]|小时|分钟|公里|公斤|千克|米|元)"
)


class JapaneseRules(EastAsianRules):
    """Japanese; the romaniser gives the readings of the characters."""

    code = "ja"
    cardinals = {"m": "cardinal"}
    digit_rules, zero_digit = "cardinal", "ゼロ"
    mixed, powers = "{}と{}", ("の二乗", "の三乗", "の{}乗")
    point, minus, plus, to = "点", "マイナス", "プラス", "から"
    calling_words = "電話|携帯|番号"
    percent = Noun.of("パーセント")
    currencies = moneys("""¥ ￥ JPY = 円, $ US$ USD = ドル, € EUR = ユーロ, £ = ポンド,
        ₩ = ウォン""")
    scales, scale_joiner = ("万", "億", "兆"), ""
    units = nouns("""kg = キログラム, g = グラム, mg = ミリグラム, t = トン, km = キロメートル,
        m = メートル, cm = センチメートル, mm = ミリメートル, km/h = キロメートル毎時,
        m/s = メートル毎秒, km² = 平方キロメートル, m² = 平方メートル, m³ = 立方メートル,
        l L = リットル, ml mL = ミリリットル, h = 時間, min = 分, s = 秒, °C ℃ = 度, °F = 華氏度,
        ° = 度, kW = キロワット, GB = ギガバイト, MB = メガバイト""")


class KoreanRules(EastAsianRules):
    """Korean: Sino-Korean numbers, native ones before hours and counters."""

    code = "ko"
    cardinals = {"m": "cardinal-sinokorean"}
    digit_rules, zero_digit = "cardinal-sinokorean", "영"
    point, minus, plus, to = "점", "영하", "플러스", "에서"
    year_sign, date_form, full_date_form = "년", "{month}월 {day}일", "{year}년 {month}월 {day}일"
    minute_form, second_form = " {} 분", " {} 초"
    fraction_of = "분의 "
    mixed, powers = "{}와 {}", ("의 제곱", "의 세제곱", "의 {}제곱")
    _duration_word = "간"
    calling_words = "전화|휴대폰|번호|연락처"
    percent = Noun.of("퍼센트")
    currencies = moneys("""₩ ￦ KRW = 원, $ US$ USD = 달러, € EUR = 유로, £ = 파운드, ¥ = 엔""")
    scales = ("만", "억", "조")
    units = nouns("""kg = 킬로그램, g = 그램, mg = 밀리그램, t = 톤, km = 킬로미터, m = 미터,
        cm = 센티미터, mm = 밀리미터, km/h = 킬로미터 매 시, m² = 제곱미터, m³ = 세제곱미터,
        l L = 리터, ml mL = 밀리리터, h = 시간, °C ℃ = 도, °F = 화씨 도, ° = 도,
        kW = 킬로와트, GB = 기가바이트, MB = 메가바이트""")
    _IRREGULAR_MONTHS = {6: "유", 10: "시"}
    _COUNTERS = (
        "개월|개|명|살|시간|시|마리|잔|병|권|장|대|번째|번|켤레|송이|그루|사람|가지|벌|채|척|자루|곳|달"
    )

    def native_cardinal(self, number: int) -> str:
        """Before a counter: one is 한."""
        return spell("ko", number, "cardinal-native-attributive")

    def decimal_words(self, number: WrittenNumber) -> str:
        """삼 점 일사."""
        return f"{self.integer_words(number.whole)} {self.point} {self.decimal_digits(number.fraction)}"

    def phone(self, text: str) -> str:
        """A telephone's zero is 공."""
        return super().phone(text).replace("영", "공")

    def month(self, number: int) -> str:
        """유 for June, and 시 for October."""
        return self._IRREGULAR_MONTHS.get(number) or self.cardinal(number)

    def hours(self, hour: int) -> str:
        """세 시: native up to twelve."""
        return f"{self.native_cardinal(hour) if 1 <= hour <= 12 else self.cardinal(hour)} 시"

    def counted_words(self, amount: str, noun: Noun) -> str:
        """With a space before the unit; below zero of degrees only."""
        sign, first, last = self.parse_amount(amount)
        spoken = self.number_words(first) + (f"{self.to} {self.number_words(last)}" if last else "")
        if sign == self.minus and noun.one != "도":
            sign = "마이너스"
        return f"{sign} {spoken} {noun.one}".strip()

    def amount_words(self, amount: str, gender: str = "") -> str:
        return re.sub(f"^{self.minus}", "마이너스 ", super().amount_words(amount))

    @cached_property
    def read_ordinals(self) -> Step:
        """Counters: 3개, 2번째, 9시; months; degrees below zero."""
        counters = re.compile(rf"(?<![0-9.,-])([1-9][0-9]?)\s?({self._COUNTERS})(?![0-9])")
        months = re.compile(r"(?<![0-9.,])(1[0-2]|[1-9])\s?월")
        degrees = re.compile(rf"({self.amount_pattern})\s?도(?=[^\s]{{0,4}}(?:\s|[.!?,]|$))")

        def counter_words(match: re.Match[str]) -> str:
            number, counter = int(match[1]), match[2]
            if counter == "번째" and number == 1:
                return "첫 번째"
            if counter == "개월" or (counter == "시" and number > 12):
                return f"{self.cardinal(number)} {counter}"
            return f"{self.native_cardinal(number)} {counter}"

        thousands, unit = re.compile(r"(?<![0-9.,])1(?=만)"), Noun.of("도")

        def step(text: str) -> str:
            text = months.sub(lambda m: f"{self.month(int(m[1]))}월", thousands.sub("", text))
            return degrees.sub(lambda m: self.counted_words(m[1], unit), counters.sub(counter_words, text))

        return step
