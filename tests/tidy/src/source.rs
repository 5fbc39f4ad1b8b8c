//! Rust source with comments and literals blanked out, so that checks see code only.

/// Source whose comments, strings and characters are spaces; lines stay where they were.
#[derive(Clone, Debug)]
pub struct Source {
    /// The code.
    pub code: String,
}

impl Source {
    /// Blanks comments and literals out.
    pub fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut code = bytes.to_vec();
        let mut at = 0;
        while at < bytes.len() {
            let end = literal_or_comment_end(bytes, at);
            match end {
                Some(end) => {
                    for byte in &mut code[at..end] {
                        if *byte != b'\n' {
                            *byte = b' ';
                        }
                    }
                    at = end;
                }
                None => at += 1,
            }
        }
        // Only whole characters were replaced, each by as many spaces as it had bytes.
        Self { code: String::from_utf8(code).expect("spaces replace whole characters") }
    }

    /// The same without the modules and functions that are compiled for tests only.
    pub fn without_tests(&self) -> Self {
        let mut code = self.code.clone();
        while let Some(start) = code.find("#[cfg(test)]") {
            let end = item_end(&code, start + "#[cfg(test)]".len());
            let blank: String = code[start..end]
                .chars()
                .map(|letter| if letter == '\n' { '\n' } else { ' ' })
                .collect();
            code.replace_range(start..end, &blank);
        }
        Self { code }
    }

    /// Name, first line (from 1) and number of lines of every function that has a body.
    pub fn functions(&self) -> Vec<(String, usize, usize)> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = self.code[from..].find("fn ").map(|at| at + from) {
            from = at + 3;
            let before = self.code[..at].chars().next_back();
            let starts_word =
                before.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_');
            let name: String = self.code[from..]
                .chars()
                .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
                .collect();
            if !starts_word || name.is_empty() {
                continue;
            }
            let end = item_end(&self.code, at);
            if self.code[..end].ends_with('}') {
                let line = self.code[..at].matches('\n').count() + 1;
                let lines = self.code[at..end].matches('\n').count() + 1;
                found.push((name, line, lines));
            }
        }
        found
    }
}

/// The end of the item that follows `from`: after its closing brace, or its semicolon.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0;
    let mut brackets = 0;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b';' if depth == 0 && brackets == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// If a comment or a literal starts at `at`: where it ends.
fn literal_or_comment_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        return Some(at + end);
    }
    if rest.starts_with(b"/*") {
        return Some(at + block_comment_length(rest));
    }
    match rest[0] {
        b'"' => Some(at + quoted_length(rest)),
        b'r' if !continues_a_word(bytes, at) => raw_length(rest).map(|length| at + length),
        b'b' if rest.get(1) == Some(&b'r') && !continues_a_word(bytes, at) => {
            raw_length(&rest[1..]).map(|length| at + 1 + length)
        }
        b'\'' => character_length(rest).map(|length| at + length),
        _ => None,
    }
}

fn continues_a_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn quoted_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_length(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let closing = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = 2 + hashes;
    let end = rest[body..].windows(closing.len()).position(|window| window == closing);
    Some(end.map_or(rest.len(), |end| body + end + closing.len()))
}

/// A character literal, unless this is a lifetime.
fn character_length(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        let end = rest[3..].iter().position(|byte| *byte == b'\'')?;
        return Some(3 + end + 1);
    }
    let text = core::str::from_utf8(&rest[1..rest.len().min(6)]);
    let letter = match text {
        Ok(text) => text.chars().next()?,
        Err(error) => {
            let valid = core::str::from_utf8(&rest[1..1 + error.valid_up_to()]).ok()?;
            valid.chars().next()?
        }
    };
    let end = 1 + letter.len_utf8();
    (rest.get(end) == Some(&b'\'')).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank_and_code_stays() {
        let text = "let a = \"unsafe \\\" {\"; // unsafe\n/* fn x() { /* */ } */ let b = '{';";
        let code = Source::new(text).code;
        assert_eq!(code.len(), text.len());
        assert!(!code.contains("unsafe") && !code.contains('{') && !code.contains("fn"), "{code}");
        assert!(code.contains("let a =") && code.contains("let b ="), "{code}");
    }

    #[test]
    fn raw_strings_and_lifetimes_are_told_apart_from_the_rest() {
        let code =
            Source::new("fn f<'a>(x: &'a str) { g(r#\"} \" {\"#, br\"{\", '\\'', '\u{20ac}') }");
        assert_eq!(code.functions(), [("f".to_owned(), 1, 1)], "{}", code.code);
    }

    #[test]
    fn functions_are_measured_from_their_name_to_their_brace() {
        let text = "trait T {\n fn none(&self);\n}\nfn four(\n a: [u8; 2],\n) {\n}\nfn one() {}\n";
        let found = Source::new(text).functions();
        assert_eq!(found, [("four".to_owned(), 4, 4), ("one".to_owned(), 8, 1)]);
    }

    #[test]
    fn tests_are_taken_out() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n";
        let found = Source::new(text).without_tests().functions();
        assert_eq!(found, [("a".to_owned(), 1, 1), ("c".to_owned(), 6, 1)]);
    }
}
