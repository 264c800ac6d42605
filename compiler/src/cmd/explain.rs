//! `titanc explain CODE`.

use crate::cli::{CommandResult, print};
use titan_ir::{Diag, codes};

pub(crate) fn run(code: &str) -> CommandResult {
    let Some(found) = codes::explain(code) else {
        return Err(Diag::new("T0901", format!("there is no diagnostic code `{code}`"))
            .help("codes are T and four digits, as in error[T0402]")
            .into());
    };
    print(&format!("{}: {}\n\n{}\n", found.code, found.title, wrapped(found.explanation, 80)))?;
    Ok(())
}

/// The text in lines of at most `width` characters, if its words allow.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if column > 0 {
            let fits = column + 1 + len <= width;
            lines.push(if fits { ' ' } else { '\n' });
            column = if fits { column + 1 } else { 0 };
        }
        lines.push_str(word);
        column += len;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_are_as_long_as_words_allow() {
        assert_eq!(wrapped("ab cd ef", 5), "ab cd\nef");
        assert_eq!(wrapped("abcdefg  h", 5), "abcdefg\nh");
        assert_eq!(wrapped("", 5), "");
    }
}
