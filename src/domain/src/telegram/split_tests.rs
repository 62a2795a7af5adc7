use super::*;

const SEED: u64 = 20_260_711;

fn shown(text: &str) -> Vec<&str> {
    parts(text).into_iter().filter_map(|range| text.get(range)).collect()
}

fn utf16(text: &str) -> usize {
    text.encode_utf16().count()
}

fn seen(text: &str) -> bool {
    !text.chars().all(is_unseen)
}

/// What holds for every text whose blank stretches are shorter than a message.
fn check(text: &str, what: &str) {
    let parts = shown(text);
    assert_eq!(parts.concat(), text, "{what}: joined");
    let boundaries: Vec<usize> = text.grapheme_indices(true).map(|(at, _)| at).collect();
    let mut at = 0;
    for part in &parts {
        assert!(utf16(part) <= UNITS_MAX, "{what}: {} units", utf16(part));
        assert!(seen(part), "{what}: nothing to see at {at}");
        assert!(
            boundaries.binary_search(&at).is_ok(),
            "{what}: cut inside a character at {at}"
        );
        at += part.len();
    }
}

#[test]
fn what_fits_is_one_part() {
    for text in ["a", "Hello.", " x ", &"x".repeat(4_096), &"😀".repeat(2_048)] {
        assert_eq!(shown(text), [text]);
    }
    assert_eq!(utf16(&"😀".repeat(2_048)), UNITS_MAX);
    for text in ["", " ", "\n\n", "\u{200B}\u{A0}\t", &" ".repeat(9_000)] {
        assert_eq!(parts(text), [], "{text:?}");
    }
}

#[test]
fn one_unit_too_many_makes_two_parts() {
    let text = "x".repeat(4_097);
    assert_eq!(parts(&text), [0..4_096, 4_096..4_097]);
    let text = "😀".repeat(2_049);
    assert_eq!(parts(&text), [0..8_192, 8_192..8_196]);
}

#[test]
fn five_thousand_emoji_are_cut_between_emoji() {
    let text = "\u{1F600}".repeat(5_000);
    let lengths: Vec<usize> = shown(&text).iter().map(|part| utf16(part)).collect();
    assert_eq!(lengths, [4_096, 4_096, 1_808]);
    check(&text, "emoji");
}

#[test]
fn a_long_word_is_cut_where_it_must_be() {
    let text = "a".repeat(10_000);
    let lengths: Vec<usize> = shown(&text).iter().map(|part| utf16(part)).collect();
    assert_eq!(lengths, [4_096, 4_096, 1_808]);
    // Behind a short sentence it starts a message of its own.
    let text = format!("Here it is: {text}");
    let lengths: Vec<usize> = shown(&text).iter().map(|part| utf16(part)).collect();
    assert_eq!(lengths, [12, 4_096, 4_096, 1_808]);
}

#[test]
fn the_best_boundary_of_the_second_half_is_taken() {
    let sentence = "Some words stand here. ";
    let fill = |units: usize| sentence.repeat(units / sentence.len());
    let line = fill(2_400);
    let cases = [
        (
            "paragraph",
            format!("{line}\n\n{}\n{}", fill(1_000), fill(3_000)),
            line.len() + 2,
        ),
        (
            "line",
            format!("{line}\n{}{}", fill(1_000), fill(3_000)),
            line.len() + 1,
        ),
        ("sentence", fill(5_000), 4_094),
        ("word", "word ".repeat(1_000), 4_095),
        ("wide sentence", "これは文です。".repeat(800), 4_095 * 3),
        ("indented line", format!("{line}\n    {}", fill(3_000)), line.len() + 5),
        // Too early to be worth it: the last sentence is better.
        ("early paragraph", format!("Hi\n\n{}", fill(6_000)), 4 + 4_071),
    ];
    for (what, text, cut) in cases {
        assert_eq!(parts(&text)[0].end, cut, "{what}");
        check(&text, what);
    }
}

#[test]
fn characters_at_the_boundary_stay_whole() {
    let characters = [
        ("combining mark", "e\u{301}"),
        ("marks", "a\u{301}\u{302}\u{303}"),
        ("family", "👨\u{200D}👩\u{200D}👧\u{200D}👦"),
        ("flag", "🇩🇪"),
        ("skin", "👍🏽"),
        ("line end", "\r\n"),
        ("hangul", "\u{1112}\u{1161}\u{11AB}"),
        ("keycap", "1\u{FE0F}\u{20E3}"),
    ];
    for (what, character) in characters {
        for before in 4_080..=4_096 {
            let text = format!("{}{character}{}", "x".repeat(before), "y".repeat(50));
            check(&text, &format!("{what} behind {before}"));
            let text = format!("{}{}", "x".repeat(before), character.repeat(30));
            if character != "\r\n" {
                check(&text, &format!("{what} again behind {before}"));
            }
        }
    }
}

#[test]
fn a_character_longer_than_a_message_is_cut_between_code_points() {
    let text = format!("a{}", "\u{301}".repeat(9_000));
    let parts = shown(&text);
    assert_eq!(parts.concat(), text);
    let lengths: Vec<usize> = parts.iter().map(|part| utf16(part)).collect();
    assert_eq!(lengths, [4_096, 4_096, 809]);
}

#[test]
fn no_part_is_blank() {
    let ends = format!("{}\n\n  \n", "x".repeat(4_096));
    assert_eq!(parts(&ends), [0..4_095, 4_095..4_101]);
    let starts = format!("{}{}", "\n".repeat(4_000), "x".repeat(4_096));
    check(&starts, "blank start");
    let middle = format!("a{}b", " ".repeat(4_500));
    check(&middle, "blank middle");
    // A stretch of blanks that fills a message is left out, wherever it stands.
    let blanks = " ".repeat(9_000);
    assert_eq!(shown(&format!("{blanks}a")), ["a"]);
    let long = format!("a{blanks}b");
    assert_eq!(parts(&long), [0..4_096, 9_001..9_002]);
    assert_eq!(shown(&format!("a{blanks}")), [format!("a{}", " ".repeat(4_095))]);
}

/// A small generator, so that a failing text can be made again from its seed.
struct Draws(u64);
impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

const SCRIPTS: &[&[&str]] = &[
    &[
        "the",
        "quick",
        "fox",
        "naïve",
        "it's",
        "3.14",
        "https://example.org/a?b=c",
    ],
    &["слово", "и", "ещё"],
    &["これは", "日本語", "です。", "漢字"],
    &["مرحبا", "بالعالم", "؟"],
    &["नमस्ते", "दुनिया।", "क्षत्रिय"],
    &["안녕하세요", "\u{1112}\u{1161}\u{11AB}"],
    &["ไทยแลนด์", "สวัสดี"],
    &[
        "😀",
        "👨\u{200D}👩\u{200D}👧\u{200D}👦",
        "🇩🇪🇫🇷",
        "👍🏽",
        "1\u{FE0F}\u{20E3}",
    ],
    &["e\u{301}\u{323}", "Z\u{351}\u{36B}\u{343}"],
];
const BETWEEN: &[&str] = &[
    " ",
    " ",
    " ",
    "",
    ". ",
    "! ",
    "\n",
    "\r\n",
    "\n\n",
    "\n    ",
    "\u{3000}",
    ") ",
    "…\n\n\n",
];

fn mixed(draws: &mut Draws, characters: usize) -> String {
    let mut text = String::new();
    let mut script = 0;
    while text.chars().count() < characters {
        if draws.below(12) == 0 {
            script = draws.below(SCRIPTS.len());
        }
        let words = SCRIPTS[script];
        let times = if draws.below(200) == 0 { draws.below(3_000) } else { 1 };
        text.push_str(&words[draws.below(words.len())].repeat(times));
        text.push_str(BETWEEN[draws.below(BETWEEN.len())]);
    }
    text
}

#[test]
fn texts_of_mixed_scripts_arrive_whole() {
    for seed in SEED..SEED + 120 {
        println!("seed {seed}");
        let mut draws = Draws(seed);
        check(&mixed(&mut draws, 20_000), &format!("seed {seed}"));
    }
}

#[test]
fn any_sequence_of_difficult_characters_is_cut_well() {
    let difficult = [
        "a", " ", "\n", "\r\n", "\u{301}", "\u{200D}", "👩", "🇩", "🇪", "。", ".", "\u{200B}", "\u{FE0F}", "각",
        "\u{11A8}",
    ];
    for seed in SEED..SEED + 300 {
        println!("seed {seed}");
        let mut draws = Draws(seed);
        let mut text = String::new();
        while utf16(&text) < 9_000 {
            let times = if draws.below(40) == 0 { draws.below(1_200) } else { 1 };
            text.push_str(&difficult[draws.below(difficult.len())].repeat(times));
        }
        let whole = shown(&text).concat() == text;
        let longest = text.grapheme_indices(true).map(|(_, cluster)| utf16(cluster)).max();
        if whole && longest <= Some(UNITS_MAX) {
            check(&text, &format!("seed {seed}"));
        }
        for part in shown(&text) {
            assert!(utf16(part) <= UNITS_MAX && seen(part), "seed {seed}");
        }
    }
}
