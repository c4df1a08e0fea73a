//! The words and symbols of a label selector.
//!
//! It owns where a token ends and what is skipped between tokens. It never checks whether a word is a valid key or
//! value, nor the order of tokens: the parser does.

/// One token. Its text is quoted in error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// The end of the text.
    End,
    /// A key, a value, or the operators `in` and `notin`: only their position distinguishes these.
    Word(&'a str),
    /// One of `=` `==` `!=` `!` `>` `<` `(` `)` `,`.
    Symbol(&'a str),
}

impl<'a> Token<'a> {
    /// The token as it was written; "" for the end.
    pub(super) const fn text(self) -> &'a str {
        match self {
            Self::End => "",
            Self::Word(text) | Self::Symbol(text) => text,
        }
    }
}

/// Reads tokens from the front of a text, one ahead of the parser.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    rest: &'a str,
    ahead: Token<'a>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut lexer = Self { rest: text, ahead: Token::End };
        lexer.ahead = lexer.read();
        lexer
    }

    /// The token that [`take`](Self::take) will return.
    pub(super) const fn peek(&self) -> Token<'a> {
        self.ahead
    }

    /// The next token; [`Token::End`] repeatedly once the text is used up.
    pub(super) fn take(&mut self) -> Token<'a> {
        let token = self.ahead;
        if token != Token::End {
            self.ahead = self.read();
        }
        token
    }

    fn read(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches(is_space);
        // A NUL ends the text, as in Kubernetes: the rest is ignored.
        let Some(first) = self.rest.chars().next().filter(|&c| c != '\0') else { return Token::End };
        let token = if is_symbol(first) {
            let doubled = self.rest.starts_with("==") || self.rest.starts_with("!=");
            Token::Symbol(self.cut(if doubled { 2 } else { 1 }))
        } else {
            let ends = |c: char| c == '\0' || is_space(c) || is_symbol(c);
            Token::Word(self.cut(self.rest.find(ends).unwrap_or(self.rest.len())))
        };
        // But one directly after a token only ends the token, and is skipped, as in Kubernetes.
        self.rest = self.rest.strip_prefix('\0').unwrap_or(self.rest);
        token
    }

    fn cut(&mut self, len: usize) -> &'a str {
        let (token, rest) = self.rest.split_at(len);
        self.rest = rest;
        token
    }
}

const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

const fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

#[cfg(test)]
mod tests {
    use super::{Lexer, Token};

    fn texts(text: &str) -> Vec<&str> {
        let mut lexer = Lexer::new(text);
        let mut texts = Vec::new();
        while lexer.peek() != Token::End {
            assert_eq!(lexer.peek(), lexer.peek(), "looking ahead changes nothing");
            texts.push(lexer.take().text());
        }
        assert_eq!((lexer.take(), lexer.take()), (Token::End, Token::End));
        texts
    }

    #[test]
    fn tokens_are_as_long_as_they_can_be() {
        assert_eq!(texts(""), [""; 0]);
        assert_eq!(texts(" \t\r\n"), [""; 0]);
        assert_eq!(texts("a=b"), ["a", "=", "b"]);
        assert_eq!(texts("==="), ["==", "="]);
        assert_eq!(texts("!==!"), ["!=", "=", "!"]);
        assert_eq!(texts("!!a><"), ["!", "!", "a", ">", "<"]);
        assert_eq!(texts("x in(a,b)\n, y"), ["x", "in", "(", "a", ",", "b", ")", ",", "y"]);
        assert_eq!(texts("é\u{a0}ü"), ["é\u{a0}ü"], "only ASCII blanks part words");
    }

    #[test]
    fn a_nul_ends_a_token_or_the_text() {
        assert_eq!(texts("a\0b"), ["a", "b"]);
        assert_eq!(texts("a\0\0b"), ["a"]);
        assert_eq!(texts("a=\0b"), ["a", "=", "b"]);
        assert_eq!(texts("=\0="), ["=", "="]);
        assert_eq!(texts("a \0b"), ["a"]);
        assert_eq!(texts("\0a"), [""; 0]);
    }

    #[test]
    fn in_and_notin_are_words() {
        let mut lexer = Lexer::new("in notin (");
        assert_eq!(lexer.take(), Token::Word("in"));
        assert_eq!(lexer.take(), Token::Word("notin"));
        assert_eq!(lexer.take(), Token::Symbol("("));
    }
}
