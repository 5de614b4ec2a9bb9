//! Sources of Rust as words and signs: for tests that hold the code to what its documents promise.

/// The text without comments, and with literals emptied, as words and signs.
pub fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let mut tokens = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        match chars[i] {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && chars[i] != '\n' {
                    i += 1
                }
            }
            '/' if at(i + 1) == '*' => {
                let mut depth = 0;
                loop {
                    match (at(i), at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        ('\0', _) => break,
                        _ => i += 1,
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
            '"' => i = after_string(&chars, i),
            '\'' if at(i + 1) == '\\' => {
                i = (i + 3..chars.len()).find(|&i| chars[i] == '\'').map_or(chars.len(), |i| i + 1)
            }
            '\'' if at(i + 2) == '\'' => i += 3,
            c if c.is_alphabetic() || c == '_' => {
                let end = (i..chars.len()).find(|&i| !chars[i].is_alphanumeric() && chars[i] != '_');
                let end = end.unwrap_or(chars.len());
                let word: String = chars[i..end].iter().collect();
                let hashes = (end..chars.len()).take_while(|&i| chars[i] == '#').count();
                i = match (word.as_str(), at(end + hashes)) {
                    ("r" | "br" | "cr", '"') => after_raw_string(&chars, end + hashes, hashes),
                    ("b" | "c", '"') if hashes == 0 => after_string(&chars, end),
                    _ => {
                        tokens.push(word);
                        end
                    }
                };
            }
            ':' if at(i + 1) == ':' => {
                tokens.push("::".to_owned());
                i += 2;
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push(c.to_string());
                }
                i += 1;
            }
        }
    }
    tokens
}

fn after_string(chars: &[char], quote: usize) -> usize {
    let mut i = quote + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

fn after_raw_string(chars: &[char], quote: usize, hashes: usize) -> usize {
    let ends = |&i: &usize| chars[i] == '"' && (1..=hashes).all(|n| chars.get(i + n) == Some(&'#'));
    (quote + 1..chars.len()).find(ends).map_or(chars.len(), |i| i + 1 + hashes)
}

/// The tokens without items that are for tests only.
pub fn without_tests(tokens: &[String]) -> Vec<String> {
    const ATTRIBUTE: [&str; 6] = ["#", "[", "cfg", "(", "test", ")"];
    let mut rest = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        if !tokens[i..].iter().map(String::as_str).take(ATTRIBUTE.len()).eq(ATTRIBUTE) {
            rest.push(tokens[i].clone());
            i += 1;
            continue;
        }
        // Up to the semicolon or the brace that ends the item.
        i += ATTRIBUTE.len() + 1;
        let mut depth = 0;
        while i < tokens.len() {
            match tokens[i].as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            let ends = depth == 0 && [";", "}"].contains(&tokens[i].as_str());
            i += 1;
            if ends {
                break;
            }
        }
    }
    rest
}
