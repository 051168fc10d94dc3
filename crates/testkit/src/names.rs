//! Generates names for the namespaces of test cases.

const ADJECTIVES: [&str; 24] = [
    "amber", "bold", "brisk", "calm", "clear", "crisp", "deep", "early", "fair", "fresh", "gentle", "keen",
    "light", "mellow", "neat", "prime", "quick", "quiet", "rapid", "solid", "steady", "swift", "tidy",
    "warm",
];
const NOUNS: [&str; 24] = [
    "anchor", "beacon", "breeze", "buoy", "channel", "compass", "crew", "current", "deck", "dock", "ferry",
    "gull", "harbor", "helm", "island", "keel", "lagoon", "mast", "pilot", "reef", "rudder", "sail", "tide",
    "wharf",
];
/// The letters that Kubernetes generates names from.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Generates a name such as `kuttl-calm-tide-x7zq`.
pub(crate) fn namespace() -> String {
    let one = |words: &[&'static str]| words[fastrand::usize(..words.len())];
    let letter = || char::from(LETTERS[fastrand::usize(..LETTERS.len())]);
    let suffix: String = std::iter::repeat_with(letter).take(4).collect();
    format!("kuttl-{}-{}-{suffix}", one(&ADJECTIVES), one(&NOUNS))
}
