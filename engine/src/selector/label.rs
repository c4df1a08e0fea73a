//! Label selectors: `app=web,tier in (a,b),!old`.
//!
//! It owns their grammar and their meaning, both of `k8s.io/apimachinery/pkg/labels`. It does not know the resource:
//! labels are the same for all.

use super::lexer::{Lexer, Token};
use super::name::{key_fault, quoted, value_fault};
use super::{REQUIREMENTS_MAX, Required, SelectorError, check_length};
use crate::attributes::Attributes;
use crate::shown::shown;

/// The most invalid values of one set that an error lists. Kubernetes lists all; a 64 KiB selector could then produce a
/// message of megabytes.
const FAULTS_LISTED_MAX: usize = 100;

/// A set of requirements on labels, all of which an object must meet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Sorted, none twice.
    requirements: Box<[Requirement]>,
}

/// One requirement. The order of the members is the order in a selector: by key first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Requirement {
    key: Box<str>,
    condition: Condition,
}

/// The condition on the value of a key. Value sets are sorted and hold nothing twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Condition {
    /// `=`, `==`, `in`: there is a value and the set has it.
    In(Box<[Box<str>]>),
    /// `!=`, `notin`: the set does not have the value, or there is none.
    NotIn(Box<[Box<str>]>),
    /// The bare key: there is a value.
    Exists,
    /// `!`: there is none.
    Absent,
    /// `>`: there is a value and it is an integer above this one.
    Above(i64),
    /// `<`: there is a value and it is an integer below this one.
    Below(i64),
}

impl LabelSelector {
    /// Reads the text of a `labelSelector`. The empty text selects everything.
    ///
    /// # Errors
    /// The text breaks the grammar, has an invalid key or value, or passes a limit.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        check_length(text)?;
        let mut lexer = Lexer::new(text);
        let mut requirements = Vec::new();
        loop {
            match lexer.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                Token::End => break,
                Token::Symbol(found) => {
                    return malformed(format!(
                        "found '{found}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            if requirements.len() == REQUIREMENTS_MAX {
                return Err(SelectorError::TooManyRequirements);
            }
            let requirement = requirement(&mut lexer).map_err(|message| {
                SelectorError::Malformed(format!("unable to parse requirement: {message}"))
            })?;
            requirements.push(requirement);
            match lexer.take() {
                Token::End => break,
                Token::Symbol(",") => {
                    let next = lexer.peek();
                    if !matches!(next, Token::Word(_) | Token::Symbol("!")) {
                        return malformed(format!(
                            "found '{}', expected: identifier after ','",
                            shown(next.text())
                        ));
                    }
                }
                Token::Word(found) | Token::Symbol(found) => {
                    return malformed(format!("found '{}', expected: ',' or 'end of string'", shown(found)));
                }
            }
        }
        requirements.sort_unstable();
        requirements.dedup();
        Ok(Self { requirements: requirements.into() })
    }

    /// How many requirements it has.
    pub(super) const fn requirements(&self) -> usize {
        self.requirements.len()
    }

    /// Whether it has no requirement.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object with these attributes meets every requirement. Allocates nothing.
    #[must_use]
    pub fn matches(&self, attributes: Attributes<'_>) -> bool {
        self.requirements
            .iter()
            .all(|required| required.condition.admits(attributes.label(required.key.as_bytes())))
    }

    /// The requirements in the words of Kubernetes' API: key, operator, and values. Those that compare integers have no operator
    /// there, and are left out.
    pub fn terms(&self) -> impl Iterator<Item = (&str, &'static str, &[Box<str>])> {
        self.requirements.iter().filter_map(|required| {
            let (operator, values): (_, &[Box<str>]) = match &required.condition {
                Condition::In(values) => ("In", values),
                Condition::NotIn(values) => ("NotIn", values),
                Condition::Exists => ("Exists", &[]),
                Condition::Absent => ("DoesNotExist", &[]),
                Condition::Above(_) | Condition::Below(_) => return None,
            };
            Some((&*required.key, operator, values))
        })
    }

    /// What the requirements demand of every object that meets them, in their order.
    pub(super) fn required(&self) -> impl Iterator<Item = Required<'_>> {
        self.requirements.iter().filter_map(|required| match &required.condition {
            Condition::In(values) => Some(Required::Label(&required.key, values)),
            Condition::Exists | Condition::Above(_) | Condition::Below(_) => {
                Some(Required::Key(&required.key))
            }
            Condition::NotIn(_) | Condition::Absent => None,
        })
    }
}

impl Condition {
    fn admits(&self, value: Option<&[u8]>) -> bool {
        match self {
            Self::In(values) => value.is_some_and(|value| has(values, value)),
            Self::NotIn(values) => value.is_none_or(|value| !has(values, value)),
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::Above(bound) => integer(value).is_some_and(|value| value > *bound),
            Self::Below(bound) => integer(value).is_some_and(|value| value < *bound),
        }
    }
}

fn has(values: &[Box<str>], value: &[u8]) -> bool {
    values.binary_search_by(|candidate| candidate.as_bytes().cmp(value)).is_ok()
}

/// A decimal 64-bit integer, with or without a sign.
fn integer(value: Option<&[u8]>) -> Option<i64> {
    std::str::from_utf8(value?).ok()?.parse().ok()
}

fn malformed(message: String) -> Result<LabelSelector, SelectorError> {
    Err(SelectorError::Malformed(message))
}

/// An operator between a key and its value or values.
#[derive(Clone, Copy)]
enum Operator {
    In,
    NotIn,
    Equal,
    NotEqual,
    Above,
    Below,
}

/// Reads one requirement, up to and including the comma after it, or the end.
fn requirement(lexer: &mut Lexer<'_>) -> Result<Requirement, String> {
    let negated = lexer.peek() == Token::Symbol("!");
    if negated {
        lexer.take();
    }
    let key = match lexer.take() {
        Token::Word(key) => key,
        Token::End => return Err("found '', expected: identifier".to_owned()),
        Token::Symbol(found) => return Err(format!("found '{found}', expected: identifier")),
    };
    if let Some(fault) = key_fault(key) {
        // Kubernetes names the field here; a selector in a query has none, so it prints "<nil>".
        return Err(format!("<nil>: Invalid value: {}: {fault}", quoted(key)));
    }
    let condition = if negated {
        Condition::Absent
    } else if matches!(lexer.peek(), Token::End | Token::Symbol(",")) {
        Condition::Exists
    } else {
        restriction(key, lexer)?
    };
    Ok(Requirement { key: key.into(), condition })
}

/// Reads an operator and its operand.
fn restriction(key: &str, lexer: &mut Lexer<'_>) -> Result<Condition, String> {
    Ok(match operator(lexer.take())? {
        Operator::In => Condition::In(checked_set(key, value_set(lexer)?)?),
        Operator::NotIn => Condition::NotIn(checked_set(key, value_set(lexer)?)?),
        Operator::Equal => Condition::In(checked_set(key, vec![exact_value(lexer)?])?),
        Operator::NotEqual => Condition::NotIn(checked_set(key, vec![exact_value(lexer)?])?),
        Operator::Above => Condition::Above(checked_bound(key, exact_value(lexer)?)?),
        Operator::Below => Condition::Below(checked_bound(key, exact_value(lexer)?)?),
    })
}

fn operator(token: Token<'_>) -> Result<Operator, String> {
    match token {
        Token::Word("in") => Ok(Operator::In),
        Token::Word("notin") => Ok(Operator::NotIn),
        Token::Symbol("=" | "==") => Ok(Operator::Equal),
        Token::Symbol("!=") => Ok(Operator::NotEqual),
        Token::Symbol(">") => Ok(Operator::Above),
        Token::Symbol("<") => Ok(Operator::Below),
        Token::Word(found) | Token::Symbol(found) => {
            Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", shown(found)))
        }
        Token::End => Err("found '', expected: in, notin, =, ==, !=, gt, lt".to_owned()),
    }
}

/// Reads the one value after `=` and similar operators; if there is none, it is "".
fn exact_value<'a>(lexer: &mut Lexer<'a>) -> Result<&'a str, String> {
    match lexer.peek() {
        Token::End | Token::Symbol(",") => Ok(""),
        Token::Word(value) => {
            lexer.take();
            Ok(value)
        }
        Token::Symbol(found) => Err(format!("found '{found}', expected: identifier")),
    }
}

/// Reads `(a,b)`. An empty element is the value "".
fn value_set<'a>(lexer: &mut Lexer<'a>) -> Result<Vec<&'a str>, String> {
    let open = lexer.take();
    if open != Token::Symbol("(") {
        return Err(format!("found '{}' expected: '('", shown(open.text())));
    }
    match lexer.peek() {
        Token::Word(_) | Token::Symbol("," | ")") => {}
        found @ (Token::Symbol(_) | Token::End) => {
            return Err(format!("found '{}', expected: ',', ')' or identifier", shown(found.text())));
        }
    }
    let mut values = Vec::new();
    loop {
        // At the start of an element: directly after the bracket or a comma.
        match lexer.take() {
            Token::Word(value) => {
                values.push(value);
                match lexer.take() {
                    Token::Symbol(",") => {}
                    Token::Symbol(")") => return Ok(values),
                    found @ (Token::Word(_) | Token::Symbol(_) | Token::End) => {
                        return Err(format!("found '{}', expected: ',' or ')'", shown(found.text())));
                    }
                }
            }
            Token::Symbol(",") => values.push(""),
            Token::Symbol(")") => {
                values.push("");
                return Ok(values);
            }
            found @ (Token::Symbol(_) | Token::End) => {
                return Err(format!("found '{}', expected: ',', or identifier", shown(found.text())));
            }
        }
    }
}

/// The values, sorted and without duplicates, if all are valid label values.
fn checked_set(key: &str, mut values: Vec<&str>) -> Result<Box<[Box<str>]>, String> {
    values.sort_unstable();
    values.dedup();
    let faults = values.iter().enumerate().filter_map(|(at, value)| faulty_value(key, at, value));
    all_of(&faults.take(FAULTS_LISTED_MAX).collect::<Vec<_>>())?;
    Ok(values.into_iter().map(Box::from).collect())
}

/// The integer after `>` or `<`. It must also be a valid label value, so it has no sign.
fn checked_bound(key: &str, value: &str) -> Result<i64, String> {
    let not_an_integer = || {
        format!(
            "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
            quoted(value)
        )
    };
    let bound = integer(Some(value.as_bytes())).ok_or_else(not_an_integer);
    let faults = bound.as_ref().err().cloned().into_iter().chain(faulty_value(key, 0, value));
    all_of(&faults.collect::<Vec<_>>())?;
    bound
}

/// The error in element `at` of a requirement's set.
fn faulty_value(key: &str, at: usize, value: &str) -> Option<String> {
    let fault = value_fault(value)?;
    Some(format!("values[{at}][{}]: Invalid value: {}: {fault}", shown(key), quoted(value)))
}

/// One message with all errors, if there are any.
fn all_of(faults: &[String]) -> Result<(), String> {
    match faults {
        [] => Ok(()),
        [fault] => Err(fault.clone()),
        faults => Err(format!("[{}]", faults.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use std::iter::once;

    use super::super::{REQUIREMENTS_MAX, SelectorError, TEXT_BYTES_MAX};
    use super::LabelSelector;
    use crate::attributes::{AttributeTexts, OwnAttributes};

    fn parse(text: &str) -> LabelSelector {
        LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text:?} is a selector: {error}"))
    }

    fn error(text: &str) -> String {
        LabelSelector::parse(text).expect_err(text).to_string()
    }

    fn labelled(labels: &[(&'static str, &'static str)]) -> OwnAttributes {
        let labels = labels.iter().map(|&(k, v)| (k.into(), v.into())).collect();
        OwnAttributes::new(&AttributeTexts::new(labels, Vec::new()))
    }

    #[test]
    fn texts_that_mean_the_same_are_equal() {
        let table: &[&[&str]] = &[
            &["", " ", "\t\r\n", "\0 what follows a NUL"],
            &["a=b", "a==b", " a = b ", "a in (b)", "a in(b,b)", "a=b,a==b", "a\n==\tb"],
            &["a!=b", "a notin (b)", "a != b"],
            &["a", " a ", "a,a"],
            &["!a", "! a", "!a,!a"],
            &["a=", "a==", "a in ()", "a in (,)", "a in (,,)", "a= ", "a=,a in ( )"],
            &["a!=", "a notin ()"],
            &["a in (x,y)", "a in (y,x)", "a in ( y , x , y )"],
            &["a in (,x)", "a in (x,)", "a in (,x,)", "a in (x,,x)"],
            &["a>5", "a > 5", "a>05"],
            &["a<5", "a < 5"],
            &["a=1,b=2", "b=2,a=1", "b==2 , a in (1), b=2"],
            &["in", "in "],
            &["notin in (in,notin)", "notin in (notin,in)"],
            &["in notin (in)", "in != in"],
            &["a.b/c=d", "a.b/c in (d)"],
            &["a=b,!c,d", "a=b\0,!c,d", "a=\0b,d,!c"],
        ];
        for (row, texts) in table.iter().enumerate() {
            for text in *texts {
                assert_eq!(parse(text), parse(texts[0]), "{text:?}");
            }
            for (other, others) in table.iter().enumerate().filter(|&(other, _)| other != row) {
                assert_ne!(parse(texts[0]), parse(others[0]), "rows {row} and {other}");
            }
        }
    }

    #[test]
    fn what_is_selected() {
        let object = labelled(&[("app", "web"), ("empty", ""), ("n", "5"), ("big", "9223372036854775808")]);
        let yes = [
            "",
            "app",
            "app=web",
            "app in (db,web)",
            "app!=db",
            "app notin (a,b)",
            "!gone",
            "gone!=x",
            "gone notin (x,y)",
            "gone!=",
            "empty",
            "empty=",
            "empty in (a,)",
            "n>4",
            "n<6",
            "app=web,n>4,!gone",
            "n>0,n<10",
        ];
        let no = [
            "!app",
            "app=db",
            "app in (a,b)",
            "app!=web",
            "app notin (web,b)",
            "gone",
            "gone=x",
            "gone=",
            "gone in (,x)",
            "gone>1",
            "gone<1",
            "!empty",
            "empty!=",
            "n>5",
            "n<5",
            "app>1",
            "app<1",
            "empty<1",
            "big>1",
            "big<1",
            "app=web,app=db",
            "app=web,gone",
            "App=web",
            "app=Web",
        ];
        for text in yes {
            assert!(parse(text).matches(object.get()), "{text}");
        }
        for text in no {
            assert!(!parse(text).matches(object.get()), "{text}");
        }
        let below_zero = labelled(&[("n", "-9223372036854775808")]);
        assert!(parse("n<0").matches(below_zero.get()) && !parse("n>0").matches(below_zero.get()));
        assert!(!parse("n<9223372036854775807").matches(labelled(&[("n", "9223372036854775807")]).get()));
    }

    #[test]
    fn errors_are_those_of_kubernetes() {
        let in_requirement = [
            ("a in (", "found '', expected: ',', ')' or identifier"),
            ("a in (=", "found '=', expected: ',', ')' or identifier"),
            ("a in ((", "found '(', expected: ',', ')' or identifier"),
            ("a in", "found '' expected: '('"),
            ("a in b", "found 'b' expected: '('"),
            ("in in in", "found 'in' expected: '('"),
            ("a notin ,b", "found ',' expected: '('"),
            ("a in (b", "found '', expected: ',' or ')'"),
            ("a in (b c)", "found 'c', expected: ',' or ')'"),
            ("a in (b(", "found '(', expected: ',' or ')'"),
            ("a in (b,", "found '', expected: ',', or identifier"),
            ("a in (,=", "found '=', expected: ',', or identifier"),
            ("!", "found '', expected: identifier"),
            ("!,a", "found ',', expected: identifier"),
            ("!!a", "found '!', expected: identifier"),
            ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a ! b", "found '!', expected: in, notin, =, ==, !=, gt, lt"),
            ("a)", "found ')', expected: in, notin, =, ==, !=, gt, lt"),
            ("a=(", "found '(', expected: identifier"),
            ("a===b", "found '=', expected: identifier"),
            ("a=!b", "found '!', expected: identifier"),
            ("a>=5", "found '=', expected: identifier"),
        ];
        for (text, message) in in_requirement {
            assert_eq!(error(text), format!("unable to parse requirement: {message}"), "{text}");
        }
        let between = [
            ("==", "found '==', expected: !, identifier, or 'end of string'"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
            ("!=a", "found '!=', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a=b,=", "found '=', expected: identifier after ','"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("!a in (b)", "found 'in', expected: ',' or 'end of string'"),
            ("a in (b))", "found ')', expected: ',' or 'end of string'"),
        ];
        for (text, message) in between {
            assert_eq!(error(text), message, "{text}");
        }
    }

    #[test]
    fn errors_of_keys_and_values_are_those_of_kubernetes() {
        const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
            an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
            '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
            or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
            '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        const INTEGER: &str = "for 'Gt', 'Lt' operators, the value must be an integer";
        let long = "9".repeat(64);
        let table = [
            ("-a=b", format!("<nil>: Invalid value: \"-a\": name part {NAME}")),
            ("!a\"", format!("<nil>: Invalid value: \"a\\\"\": name part {NAME}")),
            ("/a", "<nil>: Invalid value: \"/a\": prefix part must be non-empty".to_owned()),
            ("a=-b", format!("values[0][a]: Invalid value: \"-b\": {VALUE}")),
            ("a in (z,b,-c)", format!("values[0][a]: Invalid value: \"-c\": {VALUE}")),
            (
                "a in (b,c:,+,c:)",
                format!(
                    "[values[0][a]: Invalid value: \"+\": {VALUE}, values[2][a]: Invalid value: \"c:\": {VALUE}]"
                ),
            ),
            ("a>b", format!("values[0]: Invalid value: \"b\": {INTEGER}")),
            ("a<", format!("values[0]: Invalid value: \"\": {INTEGER}")),
            ("a>1_0", format!("values[0]: Invalid value: \"1_0\": {INTEGER}")),
            (
                "a>9223372036854775808",
                format!("values[0]: Invalid value: \"9223372036854775808\": {INTEGER}"),
            ),
            ("a>-1", format!("values[0][a]: Invalid value: \"-1\": {VALUE}")),
            (
                "a>-x",
                format!(
                    "[values[0]: Invalid value: \"-x\": {INTEGER}, values[0][a]: Invalid value: \"-x\": {VALUE}]"
                ),
            ),
            (
                &format!("a<{long}"),
                format!(
                    "[values[0]: Invalid value: \"{long}\": {INTEGER}, \
                     values[0][a]: Invalid value: \"{long}\": must be no more than 63 bytes]"
                ),
            ),
        ];
        for (text, message) in table {
            assert_eq!(error(text), format!("unable to parse requirement: {message}"), "{text}");
        }
    }

    #[test]
    fn texts_and_requirements_are_limited() {
        let keys = |n: usize| (0..n).map(|i| format!("k{i}")).collect::<Vec<_>>().join(",");
        assert!(LabelSelector::parse(&keys(REQUIREMENTS_MAX)).is_ok());
        assert_eq!(
            LabelSelector::parse(&keys(REQUIREMENTS_MAX + 1)),
            Err(SelectorError::TooManyRequirements)
        );
        let spaces = |n: usize| once("a").chain(std::iter::repeat_n(" ", n - 1)).collect::<String>();
        assert_eq!(parse(&spaces(TEXT_BYTES_MAX)), parse("a"));
        let bytes = TEXT_BYTES_MAX + 1;
        assert_eq!(LabelSelector::parse(&spaces(bytes)), Err(SelectorError::TooLong { bytes }));
        assert!(error(&spaces(bytes)).contains("65537 bytes"), "{}", error(&spaces(bytes)));
        let values = (0..9_000).map(|i| format!("-{i}")).collect::<Vec<_>>().join(",");
        let length = error(&format!("a in ({values})")).len();
        assert!(length < TEXT_BYTES_MAX, "a message of {length} bytes");
    }
}
