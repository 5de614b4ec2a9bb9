//! The definition of a metric as a tree: what it asks for, and its value. Printed, it can be read again.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Facts of a machine, and counts made on it. All answers may be missing: a value made of
/// something unknown is not a number.
pub trait Context {
    /// A fact of the machine, such as `#num_cpus`, without the `#`: 0 and 1 for no and yes.
    fn literal(&self, _name: &str) -> Option<f64> {
        None
    }

    /// Whether the machine has an event.
    fn has_event(&self, _name: &str) -> Option<bool> {
        None
    }

    /// Whether the machine's processor is one of those that a pattern describes.
    fn is_cpu(&self, _pattern: &str) -> Option<bool> {
        None
    }

    /// The value of an event or of another metric.
    fn value(&self, _name: &str) -> Option<f64> {
        None
    }

    /// Of how many counters the value of an event is the sum.
    fn source_count(&self, _name: &str) -> Option<f64> {
        None
    }
}

/// Knows nothing.
impl Context for () {}

/// A definition.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A number; never negative and never infinite when parsed.
    Number(f64),
    /// An event or a metric.
    Name(String),
    /// `#name`: a fact of the machine.
    Literal(String),
    /// `-x`.
    Negative(Box<Expression>),
    /// Two with something between them.
    Binary(Operator, Box<(Expression, Expression)>),
    /// `then if condition else otherwise`, in this order.
    If(Box<(Expression, Expression, Expression)>),
    /// `min(a, b)` and the like.
    Call(Function, Box<(Expression, Expression)>),
    /// `has_event(name)`.
    HasEvent(String),
    /// `source_count(name)`.
    SourceCount(String),
    /// `strcmp_cpuid_str(pattern)`.
    IsCpu(String),
}

impl Default for Expression {
    fn default() -> Self {
        Expression::Number(0.0)
    }
}

/// An operator between two expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `|`, of the whole parts.
    Or,
    /// `^`, of the whole parts.
    Xor,
    /// `&`, of the whole parts.
    And,
    /// `<`: 1 or 0.
    Less,
    /// `>`: 1 or 0.
    Greater,
    /// `+`.
    Add,
    /// `-`.
    Subtract,
    /// `*`.
    Multiply,
    /// `/`.
    Divide,
    /// `%`, of the whole parts.
    Remainder,
}

/// A function of two expressions in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// The smaller one.
    Min,
    /// The greater one.
    Max,
    /// The first one divided by the second, and 0 if that is 0.
    Ratio,
}

impl Operator {
    /// All of them, as they are written, with what binds more tightly having more.
    pub(super) const ALL: [(Operator, char, u8); 10] = [
        (Operator::Or, '|', 1),
        (Operator::Xor, '^', 2),
        (Operator::And, '&', 3),
        (Operator::Less, '<', 4),
        (Operator::Greater, '>', 4),
        (Operator::Add, '+', 5),
        (Operator::Subtract, '-', 5),
        (Operator::Multiply, '*', 6),
        (Operator::Divide, '/', 6),
        (Operator::Remainder, '%', 6),
    ];

    /// The sign and how tightly it binds.
    fn written(self) -> (char, u8) {
        Self::ALL.iter().find(|(own, ..)| *own == self).map_or((' ', 0), |&(_, sign, level)| (sign, level))
    }

    fn apply(self, a: f64, b: f64) -> f64 {
        let whole = |of: fn(i64, i64) -> i64| {
            // An unknown value has no whole part.
            if a.is_nan() || b.is_nan() { f64::NAN } else { of(a as i64, b as i64) as f64 }
        };
        let truth = |is: bool| if a.is_nan() || b.is_nan() { f64::NAN } else { f64::from(u8::from(is)) };
        match self {
            Operator::Or => whole(|a, b| a | b),
            Operator::Xor => whole(|a, b| a ^ b),
            Operator::And => whole(|a, b| a & b),
            Operator::Less => truth(a < b),
            Operator::Greater => truth(a > b),
            Operator::Add => a + b,
            Operator::Subtract => a - b,
            Operator::Multiply => a * b,
            Operator::Divide if b == 0.0 => f64::NAN,
            Operator::Divide => a / b,
            Operator::Remainder if b as i64 == 0 => f64::NAN,
            Operator::Remainder => whole(i64::wrapping_rem),
        }
    }
}

impl Function {
    /// All of them by name.
    pub(super) const ALL: [(&'static str, Function); 3] =
        [("min", Function::Min), ("max", Function::Max), ("d_ratio", Function::Ratio)];

    fn apply(self, a: f64, b: f64) -> f64 {
        match self {
            _ if a.is_nan() || b.is_nan() => f64::NAN,
            Function::Min => a.min(b),
            Function::Max => a.max(b),
            Function::Ratio if b == 0.0 => 0.0,
            Function::Ratio => a / b,
        }
    }
}

impl Expression {
    /// Its value; not a number where something is unknown or was divided by 0.
    pub fn value(&self, context: &dyn Context) -> f64 {
        let unknown = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let truth = |is: Option<bool>| unknown(is.map(|is| f64::from(u8::from(is))));
        match self {
            Expression::Number(number) => *number,
            Expression::Name(name) => unknown(context.value(name)),
            Expression::Literal(name) => unknown(context.literal(name)),
            Expression::Negative(of) => -of.value(context),
            Expression::Binary(operator, sides) => {
                operator.apply(sides.0.value(context), sides.1.value(context))
            }
            Expression::If(parts) => match parts.1.value(context) {
                condition if condition.is_nan() => f64::NAN,
                0.0 => parts.2.value(context),
                _ => parts.0.value(context),
            },
            Expression::Call(function, sides) => {
                function.apply(sides.0.value(context), sides.1.value(context))
            }
            Expression::HasEvent(name) => truth(context.has_event(name)),
            Expression::SourceCount(name) => unknown(context.source_count(name)),
            Expression::IsCpu(pattern) => truth(context.is_cpu(pattern)),
        }
    }

    /// The names whose values it needs on a machine of which `facts` tells, each once, in order: where a fact
    /// decides a condition, only what follows from it is needed.
    pub fn names(&self, facts: &dyn Context) -> Vec<&str> {
        let mut found = Vec::new();
        self.walk(facts, &mut found);
        let mut known = BTreeSet::new();
        found.retain(|name| known.insert(*name));
        found
    }

    /// Visits each part once, and notes the names that are needed. Its value, as far as that does not depend on
    /// what is counted; else not a number.
    fn walk<'e>(&'e self, facts: &dyn Context, names: &mut Vec<&'e str>) -> f64 {
        match self {
            Expression::Name(name) | Expression::SourceCount(name) => {
                names.push(name);
                f64::NAN
            }
            Expression::Negative(of) => -of.walk(facts, names),
            Expression::Binary(operator, sides) => {
                let before = names.len();
                let (a, b) = (sides.0.walk(facts, names), sides.1.walk(facts, names));
                // Nothing is left of what is and-ed with 0.
                if *operator == Operator::And && (a == 0.0 || b == 0.0) {
                    names.truncate(before);
                    return 0.0;
                }
                operator.apply(a, b)
            }
            Expression::Call(function, sides) => {
                let (a, b) = (sides.0.walk(facts, names), sides.1.walk(facts, names));
                function.apply(a, b)
            }
            Expression::If(parts) => {
                let mut of_condition = Vec::new();
                match parts.1.walk(facts, &mut of_condition) {
                    condition if condition.is_nan() => {
                        parts.0.walk(facts, names);
                        names.append(&mut of_condition);
                        parts.2.walk(facts, names);
                        f64::NAN
                    }
                    0.0 => parts.2.walk(facts, names),
                    _ => parts.0.walk(facts, names),
                }
            }
            Expression::Number(_)
            | Expression::Literal(_)
            | Expression::HasEvent(_)
            | Expression::IsCpu(_) => self.value(facts),
        }
    }

    /// How tightly its outermost part binds.
    fn level(&self) -> u8 {
        match self {
            Expression::If(_) => 0,
            Expression::Binary(operator, _) => operator.written().1,
            Expression::Negative(_) => 7,
            _ => 8,
        }
    }

    /// In parentheses if it would fall apart where at least `level` is needed.
    fn inner(&self, level: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.level() < level { write!(f, "({self})") } else { write!(f, "{self}") }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Number(number) => write!(f, "{number}"),
            Expression::Name(name) => escaped(name, f),
            Expression::Literal(name) => write!(f, "#{name}"),
            Expression::Negative(of) => {
                f.write_str("-")?;
                of.inner(7, f)
            }
            Expression::Binary(operator, sides) => {
                let (sign, level) = operator.written();
                sides.0.inner(level, f)?;
                write!(f, " {sign} ")?;
                sides.1.inner(level + 1, f)
            }
            Expression::If(parts) => {
                parts.0.inner(1, f)?;
                f.write_str(" if ")?;
                parts.1.inner(1, f)?;
                write!(f, " else {}", parts.2)
            }
            Expression::Call(function, sides) => {
                let name =
                    Function::ALL.iter().find(|(_, own)| own == function).map_or("", |&(name, _)| name);
                write!(f, "{name}({}, {})", sides.0, sides.1)
            }
            Expression::HasEvent(name) => call("has_event", name, f),
            Expression::SourceCount(name) => call("source_count", name, f),
            Expression::IsCpu(pattern) => call("strcmp_cpuid_str", pattern, f),
        }
    }
}

fn call(function: &str, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{function}(")?;
    escaped(name, f)?;
    f.write_str(")")
}

/// A name as it has to be written: slashes as `@`, and whatever else is not a letter, a digit or one of `._:`
/// after a backslash.
fn escaped(name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use fmt::Write;
    // A word that could be a number is none with a backslash.
    if super::parse::number_length(name) == name.len() {
        f.write_char('\\')?;
    }
    name.chars().try_for_each(|c| match c {
        '/' => f.write_char('@'),
        c if super::parse::is_plain(c) => f.write_char(c),
        c => write!(f, "\\{c}"),
    })
}
