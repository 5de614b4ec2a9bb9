//! What of an expression the kernel can do itself, in the words of ftrace's filters (`trace_events_filter.c`).

use super::bind::{is_pointer_to_text, is_text};
use super::text::for_the_kernel;
use super::{Expr, Item, Node, Relation, Schema, What};
use crate::errno;
use crate::format::{Field, FieldKind};

/// A filter and its NUL have to fit in a page.
const LONGEST: usize = 4095;

/// An expression in two parts that both have to hold.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct KernelPart {
    /// What the kernel can be told; `None` where that is nothing.
    pub filter: Option<String>,
    /// What is left to those who read the records; `None` where that is nothing.
    pub rest: Option<Expr>,
    /// Why the kernel cannot do the rest.
    pub why: Option<String>,
}

pub(super) fn part(expr: &Expr, schema: &Schema<'_>) -> KernelPart {
    let nodes = match &expr.root.what {
        What::And(nodes) => &nodes[..],
        _ => std::slice::from_ref(&expr.root),
    };
    let (mut told, mut rest, mut why, mut length) = (Vec::new(), Vec::new(), None, 0);
    for node in nodes {
        match truth(node, schema) {
            Ok(text) if length + text.len() + 4 <= LONGEST => {
                length += text.len() + 4;
                told.push(text);
            }
            done => {
                let refused = done.err().unwrap_or_else(|| "its filters fit in a page".to_owned());
                why.get_or_insert(refused);
                rest.push(format!("({})", &expr.text[node.at.clone()]));
            }
        }
    }
    let filter = (!told.is_empty()).then(|| told.join(" && "));
    KernelPart { filter, rest: rest.join(" && ").parse().ok().filter(|_| !rest.is_empty()), why }
}

/// Whether ftrace takes a test as it stands.
pub(super) fn is_ftraces(node: &Node, schema: &Schema<'_>) -> bool {
    let is_number = |node: &Node| match &node.what {
        What::Unary("-", of) => matches!(of.what, What::Number(_)),
        what => matches!(what, What::Number(_)),
    };
    let is_text = |node: &Node| matches!(node.what, What::Text(_));
    match &node.what {
        What::Or(nodes) | What::And(nodes) => nodes.iter().all(|node| is_ftraces(node, schema)),
        What::Not(of) => is_ftraces(of, schema),
        What::Compare(.., right) => (is_number(right) || is_text(right)) && truth(node, schema).is_ok(),
        What::Binary("&", _, right) => is_number(right) && truth(node, schema).is_ok(),
        What::Glob(_, _, is_turned) => !is_turned && truth(node, schema).is_ok(),
        _ => false,
    }
}

fn truth(node: &Node, schema: &Schema<'_>) -> Result<String, String> {
    let all = |nodes: &[Node]| nodes.iter().map(|node| truth(node, schema)).collect::<Result<Vec<_>, _>>();
    match &node.what {
        What::Or(nodes) => Ok(format!("({})", all(nodes)?.join(" || "))),
        What::And(nodes) => Ok(format!("({})", all(nodes)?.join(" && "))),
        What::Not(of) => Ok(format!("!({})", truth(of, schema)?)),
        What::Compare(relation, left, right) => {
            compare(*relation, left, right, schema).or_else(|why| match constant(left) {
                Some(_) => compare(relation.turned(), right, left, schema),
                None => Err(why),
            })
        }
        What::Glob(of, pattern, is_turned) => {
            let test = format!("{} ~ {}", text_field(of, schema)?, quoted(&for_the_kernel(pattern))?);
            Ok(if *is_turned { format!("!({test})") } else { test })
        }
        What::Regex(..) => Err("it knows no regular expressions".to_owned()),
        What::In(of, items, is_turned) => {
            let tests: Result<Vec<String>, String> =
                items.iter().map(|item| member(of, item, schema)).collect();
            let test = format!("({})", tests?.join(" || "));
            Ok(if *is_turned { format!("!{test}") } else { test })
        }
        What::Binary("&", left, right) => match (constant(left), constant(right)) {
            (None, Some(mask)) => bits(left, mask, schema),
            (Some(mask), None) => bits(right, mask, schema),
            _ => Err("it compares a field with a number, and no more".to_owned()),
        },
        What::Name(_) => compare(Relation::Unequal, node, &ZERO, schema),
        _ => Err("it compares a field with a number or a text, and no more".to_owned()),
    }
}

const ZERO: Node = Node { at: 0..0, what: What::Number(0) };

fn compare(relation: Relation, left: &Node, right: &Node, schema: &Schema<'_>) -> Result<String, String> {
    if let What::Text(text) = &right.what {
        let sign = match relation {
            Relation::Equal | Relation::Unequal => relation.sign(),
            _ => return Err("texts have no order".to_owned()),
        };
        return Ok(format!("{} {sign} {}", text_field(left, schema)?, quoted(text)?));
    }
    let number = constant(right).ok_or("it compares a field with a number, not with another field")?;
    if let What::Binary("&", ..) = left.what {
        // A bit that is set, or not: the kernel has no other question about bits.
        let is_one_bit = |mask: Option<(u64, bool)>| mask == Some(number) && number.0.is_power_of_two();
        let What::Binary(_, of, mask) = &left.what else { return Err(String::new()) };
        let test = truth(left, schema)?;
        return match relation {
            Relation::Unequal if number.0 == 0 => Ok(test),
            Relation::Equal if number.0 == 0 => Ok(format!("!({test})")),
            Relation::Equal if is_one_bit(constant(mask)) || is_one_bit(constant(of)) => Ok(test),
            _ => Err("it tells only whether any of some bits is set".to_owned()),
        };
    }
    let (name, signed) = number_field(left, schema)?;
    Ok(format!("{name} {} {}", relation.sign(), literal(number, signed)?))
}

fn bits(of: &Node, mask: (u64, bool), schema: &Schema<'_>) -> Result<String, String> {
    let (name, signed) = number_field(of, schema)?;
    if name == "cpu" {
        return Err("it knows no bits of a cpu's number".to_owned());
    }
    Ok(format!("{name} & {}", literal(mask, signed)?))
}

fn member(of: &Node, item: &Item, schema: &Schema<'_>) -> Result<String, String> {
    match item {
        Item::Text(text) => Ok(format!("{} == {}", text_field(of, schema)?, quoted(text)?)),
        Item::Numbers(first, last) => {
            let (name, signed) = number_field(of, schema)?;
            let (low, high) = (literal(*first, signed)?, literal(*last, signed)?);
            Ok(if first == last {
                format!("{name} == {low}")
            } else {
                format!("({name} >= {low} && {name} <= {high})")
            })
        }
    }
}

/// A number: its bits, and whether it is negative.
fn constant(node: &Node) -> Option<(u64, bool)> {
    match &node.what {
        What::Number(bits) => Some((*bits, false)),
        What::Unary("-", of) => constant(of).map(|(bits, _)| (bits.wrapping_neg(), bits != 0)),
        What::Name(name) => errno::by_name(name).map(|number| (number.into(), false)),
        _ => None,
    }
}

fn literal((bits, is_negative): (u64, bool), signed: bool) -> Result<String, String> {
    match (is_negative, signed) {
        (true, true) => Ok((bits as i64).to_string()),
        (true, false) => Err("it takes no negative number for a field without a sign".to_owned()),
        (false, true) if bits > i64::MAX as u64 => {
            Err("the number does not fit into 64 bits with a sign".to_owned())
        }
        (false, _) => Ok(bits.to_string()),
    }
}

fn own(node: &Node) -> Result<&str, String> {
    match &node.what {
        What::Name(name) => Ok(name),
        What::Index(..) => Err("it does not look into arrays".to_owned()),
        _ => Err("it does no arithmetic".to_owned()),
    }
}

/// The name of a field that is a number, and whether it has a sign.
fn number_field<'n>(node: &'n Node, schema: &Schema<'_>) -> Result<(&'n str, bool), String> {
    let name = own(node)?;
    match schema.field(name) {
        Some(Field { kind: FieldKind::Number, size: 1 | 2 | 4 | 8, signed, .. }) => Ok((name, *signed)),
        Some(_) => Err(format!("{name} is no number to it")),
        None if schema.has_extra(name) => match name.trim_start_matches("sample.") {
            "cpu" | "CPU" => Ok(("cpu", true)),
            "tid" => Ok(("common_pid", true)),
            _ => Err(format!("it knows {name} only when the sample is taken")),
        },
        None => Err(format!("it has no field {name}")),
    }
}

fn text_field<'n>(node: &'n Node, schema: &Schema<'_>) -> Result<&'n str, String> {
    let name = own(node)?;
    match schema.field(name) {
        Some(field) if is_text(field) || is_pointer_to_text(field) => Ok(name),
        Some(_) => Err(format!("{name} is no text to it")),
        None if schema.has_extra(name) && matches!(name, "comm" | "COMM" | "sample.comm") => Ok("comm"),
        None => Err(format!("it has no text {name}")),
    }
}

fn quoted(text: &str) -> Result<String, String> {
    match (text.contains('"'), text.contains('\'')) {
        (false, _) => Ok(format!("\"{text}\"")),
        (true, false) => Ok(format!("'{text}'")),
        _ => Err("a text has one kind of quotation marks in it at most".to_owned()),
    }
}
