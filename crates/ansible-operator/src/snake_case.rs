//! Converts parameter names to snake case with operator-sdk's rules.
//!
//! A change of case starts a word, and consecutive capitals are one word. `HTTP`, `URL` and `IP` are words everywhere,
//! including an `s` of the plural. A number between two letters is a word if another number follows the second letter. A
//! leading capital results in a leading underscore. Roles depend on each of these rules, including the odd ones.

const ACRONYMS: [&str; 3] = ["HTTP", "URL", "IP"];

/// Converts a name to snake case.
pub(crate) fn snake_case(name: &str) -> String {
    let separated = separate_acronyms(separate_numbers(name).trim_matches(' '));
    let capital = name.trim_matches(' ').starts_with(|character: char| character.is_ascii_uppercase());
    let words = split_words(&separated);
    let is_acronym = ACRONYMS.iter().any(|acronym| acronym.eq_ignore_ascii_case(&words[0]));
    let prefix = if capital && !is_acronym { "_" } else { "" };
    format!("{prefix}{}", words.join("_"))
}

/// Inserts spaces around the number in `a1b2`, giving `a 1 b2`.
fn separate_numbers(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let digits = |from: usize| characters[from..].iter().take_while(|one| one.is_ascii_digit()).count();
    let letter = |at: usize| characters.get(at).is_some_and(char::is_ascii_alphabetic);
    let mut separated = String::with_capacity(name.len() + 2);
    let mut at = 0;
    while at < characters.len() {
        if letter(at) {
            let first = digits(at + 1);
            let second = at + 1 + first;
            if first > 0 && letter(second) {
                let last = digits(second + 1);
                if last > 0 {
                    let part = |from: usize, to: usize| characters[from..to].iter().collect::<String>();
                    let end = second + 1 + last;
                    separated.push_str(&format!(
                        "{} {} {}",
                        part(at, at + 1),
                        part(at + 1, second),
                        part(second, end)
                    ));
                    at = end;
                    continue;
                }
            }
        }
        separated.push(characters[at]);
        at += 1;
    }
    separated
}

/// Inserts underscores around the first of each acronym, including its plural `s`.
fn separate_acronyms(name: &str) -> String {
    let mut separated = name.to_owned();
    for acronym in ACRONYMS {
        let Some(start) = separated.find(acronym) else { continue };
        let (before, rest) = (&separated[..start], &separated[start + acronym.len()..]);
        let (plural, after) = match rest.strip_prefix('s') {
            Some(after) => ("S", after),
            None => ("", rest),
        };
        // At the end, the underscore is inserted even if nothing precedes the acronym.
        let opening = if start > 0 || after.is_empty() { "_" } else { "" };
        let closing = if after.is_empty() { "" } else { "_" };
        separated = format!("{before}{opening}{acronym}{plural}{closing}{after}");
    }
    separated
}

/// Splits into lower-case words at separators and changes of case. At least one word, which may be empty.
fn split_words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied().unwrap_or('\0');
        let falls = character.is_ascii_uppercase() && next.is_ascii_lowercase();
        let rises = character.is_ascii_lowercase() && next.is_ascii_uppercase();
        if !word.is_empty() && falls {
            words.push(std::mem::take(&mut word));
            word.push(character);
        } else if !word.is_empty() && rises {
            word.push(character);
            words.push(std::mem::take(&mut word));
        } else if matches!(character, ' ' | '_' | '-') {
            words.push(std::mem::take(&mut word));
        } else {
            word.push(character);
        }
    }
    words.push(word);
    words.iter().map(|word| word.to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_those_that_roles_expect() {
        for (name, expected) in [
            ("", ""),
            ("var", "var"),
            ("888", "888"),
            ("k8s_var", "k8s_var"),
            ("_k8s_var", "_k8s_var"),
            ("k8s var", "k8s_var"),
            ("maxMemory", "max_memory"),
            ("max-memory", "max_memory"),
            ("sizeK8sBuckets", "size_k8s_buckets"),
            ("JSONData", "_json_data"),
            ("StartsTall", "_starts_tall"),
            ("_CanYou_Handle_mixedVars", "_can_you_handle_mixed_vars"),
            ("egressIP", "egress_ip"),
            ("egressIPs", "egress_ips"),
            ("egressIPsEgress", "egress_ips_egress"),
            ("egressIPegress", "egress_ip_egress"),
            ("IPsegress", "_ips_egress"),
            ("URLegressIPEgressHTTP", "url_egress_ip_egress_http"),
            ("URLsegressIPsEgressHTTPs", "_urls_egress_ips_egress_https"),
            ("IP", "__ip"),
            ("a1b2", "a_1_b2"),
            ("ünïcode", "ünïcode"),
        ] {
            assert_eq!(snake_case(name), expected, "{name}");
        }
    }
}
