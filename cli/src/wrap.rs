//! Lines of text that fit a terminal.

use crate::columns::terminal;

/// `text` in lines of at most `width` characters, all but the first indented. A line ends between
/// two words; a word that is longer than a line is broken.
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    // In a narrow terminal most of each line stays for the text.
    let spaces = |count: usize| " ".repeat(count.min(width / 4));
    let mut lines = Vec::new();
    let mut line = spaces(text.len() - text.trim_start().len());
    for word in text.split_whitespace() {
        let has_words = !line.trim().is_empty();
        if has_words && length(&line) + 1 + length(word) > width {
            lines.push(std::mem::replace(&mut line, spaces(indent)));
        } else if has_words {
            line.push(' ');
        }
        for letter in word.chars() {
            if length(&line) >= width.max(1) {
                lines.push(std::mem::replace(&mut line, spaces(indent)));
            }
            line.push(letter);
        }
    }
    lines.push(line);
    lines.join("\n")
}

/// The line, wrapped if standard output is a terminal.
pub fn fitted(line: &str) -> String {
    terminal().map_or_else(|| line.to_owned(), |size| wrapped(line, size.width, 2))
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words() {
        let text = wrapped("  12 % losses: one two three", 16, 4);
        assert_eq!(text, "  12 % losses:\n    one two\n    three");
    }

    #[test]
    fn a_word_longer_than_a_line_is_broken() {
        let text = wrapped("a-word-that-is-longer than", 8, 4);
        assert_eq!(text, "a-word-t\n  hat-is\n  -longe\n  r than");
        for width in 0..30 {
            let text = wrapped("      why: [2001:db8::1]:443 is as it was", width, 8);
            let widest = text.lines().map(length).max().unwrap_or(0);
            assert!(widest <= width.max(1), "{width}:\n{text}");
            let without_spaces = text.split_whitespace().collect::<String>();
            assert_eq!(without_spaces, "why:[2001:db8::1]:443isasitwas", "{width}");
        }
    }
}
