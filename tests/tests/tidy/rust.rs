//! Rust as its compiler sees it, as far as the rules need it.

use crate::tree::{Source, sources};
use std::collections::BTreeSet;
use std::path::Path;

/// A Rust file as its compiler sees it: comments and literals are blanks, columns stay.
pub struct Code {
    pub source: Source,
    pub code: String,
    /// Which lines are only compiled for tests.
    is_test: Vec<bool>,
}

impl Code {
    /// Lines of what ships: neither tests nor programs of bench/, which measure.
    pub fn shipped(&self) -> impl Iterator<Item = (usize, &str)> {
        let shipped = |(at, _): &(usize, &str)| !self.is_test.get(at - 1).copied().unwrap_or(false);
        (1..).zip(self.code.lines()).filter(shipped)
    }
}

pub fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `word` stands in `line`, not as a part of a longer name.
pub fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// Bytes of the comment or literal that `rest` starts with; 0 if it starts with neither.
fn hidden(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    let quote = rest.trim_start_matches(['b', 'c', 'r']);
    let prefix = &rest[..rest.len() - quote.len()];
    if ["r", "br", "cr"].contains(&prefix) {
        let fence = &quote[..quote.len() - quote.trim_start_matches('#').len()];
        if quote[fence.len()..].starts_with('"') {
            let open = prefix.len() + fence.len() + 1;
            let close = format!("\"{fence}");
            return rest[open..].find(&close).map_or(rest.len(), |at| open + at + close.len());
        }
    }
    if ["", "b", "c"].contains(&prefix) && quote.starts_with('"') {
        return prefix.len() + quoted(quote, '"');
    }
    let mut chars = quote.chars();
    let is_char = chars.next() == Some('\'')
        && (chars.next() == Some('\\') || chars.next() == Some('\''))
        && ["", "b"].contains(&prefix);
    if is_char { prefix.len() + quoted(quote, '\'') } else { 0 }
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let step = match rest.get(at..at + 2) {
            Some("/*") => {
                depth += 1;
                2
            }
            Some("*/") => {
                depth -= 1;
                2
            }
            _ => rest[at..].chars().next().map_or(1, char::len_utf8),
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Bytes of a literal up to its closing `quote`, which a backslash may escape.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

pub fn mask(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let blank = hidden(rest);
        let shown = if blank > 0 {
            0
        } else if is_name(first) {
            rest.find(|c| !is_name(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        out.extend(rest[..blank].chars().map(|c| if c == '\n' { c } else { ' ' }));
        out.push_str(&rest[blank..blank + shown]);
        rest = &rest[blank + shown..];
    }
    out
}

/// Where the block that starts at or after `from` ends; `None` if a `;` comes first.
pub fn block_end(code: &str, from: usize) -> Option<usize> {
    let (mut braces, mut others) = (0, 0);
    for (at, c) in code[from..].char_indices() {
        match c {
            '(' | '[' => others += 1,
            ')' | ']' => others -= 1,
            ';' if braces == 0 && others == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces == 0 {
                    return Some(from + at);
                }
            }
            _ => {}
        }
    }
    None
}

pub fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

pub const CFG_TEST: &str = "#[cfg(test)]";

/// Files that a `#[cfg(test)] mod NAME;` brings in.
fn test_modules(source: &Source, code: &str) -> Vec<String> {
    let path = Path::new(&source.path);
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|root| path.ends_with(root));
    // The modules of `env.rs` lie in `env/`.
    let folder =
        if is_root { path.parent().unwrap_or(path).into() } else { path.with_extension("") };
    code.match_indices(CFG_TEST)
        .filter_map(|(at, _)| {
            let item = code[at + CFG_TEST.len()..].trim_start();
            let name = item.strip_prefix("mod ")?.split(';').next()?.trim();
            name.chars().all(is_name).then(|| format!("{}/{name}.rs", folder.display()))
        })
        .collect()
}

fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| ["tests", "examples", "bench", "benches"].contains(&part))
}

pub fn rust() -> Vec<Code> {
    let files: Vec<(Source, String)> = sources()
        .into_iter()
        .filter(|source| source.has_extension(&["rs"]))
        .map(|source| {
            let code = mask(&source.text);
            (source, code)
        })
        .collect();
    let modules: BTreeSet<String> =
        files.iter().flat_map(|(source, code)| test_modules(source, code)).collect();
    files
        .into_iter()
        .map(|(source, code)| {
            let whole = is_test_path(&source.path) || modules.contains(&source.path);
            let mut is_test = vec![whole; code.lines().count()];
            for (at, _) in code.match_indices(CFG_TEST) {
                let end = block_end(&code, at + CFG_TEST.len()).unwrap_or(at);
                is_test[line_of(&code, at) - 1..line_of(&code, end)].fill(true);
            }
            Code { source, code, is_test }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tidy_its_own_reading_of_rust_is_right() {
        let source = concat!(
            "let a = \"fn { \\\" unsafe\"; // unwrap()\n",
            "let b = r#\"}\"#; let c = '{'; let d: &'static str;"
        );
        let masked = mask(source);
        assert_eq!(masked.chars().count(), source.chars().count());
        for word in ["unsafe", "unwrap", "{", "}"] {
            assert!(!masked.contains(word), "{word} in {masked}");
        }
        assert!(has_word(&masked, "static") && masked.contains("let d"));
        assert_eq!(mask("a /* b /* c */ d */ e"), format!("a {} e", " ".repeat(17)));
        assert_eq!(block_end("fn a(b: [u8; 2]) -> C { { } } d", 0), Some(28));
        assert_eq!(block_end("fn a(b: [u8; 2]); {}", 0), None);
        assert!(has_word("x.unwrap();", "unwrap()") && !has_word("unsafe_op", "unsafe"));
    }
}
