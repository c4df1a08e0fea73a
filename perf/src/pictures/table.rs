//! The tables of a group: for each number of watchers every value with its median, spread and ratios, a row a subject.

use super::group::{Group, Subject, Summary};
use super::quantity::{Quantity, digits, is_known, place_of, words_of};
use super::text::escape;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The values that stand open; the rest can be unfolded.
pub(super) fn tables(group: &Group<'_>, watchers: u32, html: &mut String) {
    let mut names: Vec<&str> = group
        .subjects
        .iter()
        .filter_map(|subject| subject.runs.get(&watchers))
        .flatten()
        .flat_map(|record| record.values.keys().map(String::as_str))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    if names.is_empty() {
        let count = digits(f64::from(watchers));
        let _infallible = write!(html, "<p>{count} watchers: no value was recorded.</p>");
        return;
    }
    names.sort_by_key(|name| (place_of(name), *name));
    // A scenario of its own kind has values of its own: then those are what it is about.
    let (known, other): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| is_known(name));
    let caption = format!("{} watchers", digits(f64::from(watchers)));
    let (open, folded) = if known.len() > 2 { (known, other) } else { ([known, other].concat(), Vec::new()) };
    table(group, watchers, &caption, &open, html);
    if !folded.is_empty() {
        let _infallible = write!(html, "<details><summary>{} more values</summary>", folded.len());
        table(group, watchers, &caption, &folded, html);
        html.push_str("</details>");
    }
}

fn table(group: &Group<'_>, watchers: u32, caption: &str, names: &[&str], html: &mut String) {
    let subjects: Vec<&Subject<'_>> =
        group.subjects.iter().filter(|subject| subject.runs.contains_key(&watchers)).collect();
    let has_floor = subjects.iter().any(|subject| subject.is_floor());
    let first = group.first().filter(|first| first.runs.contains_key(&watchers));
    let _infallible = write!(
        html,
        "<div class=\"wide\"><table><caption>{}</caption><thead><tr><th>Value</th><th>Subject</th>\
         <th class=\"n\">Median</th><th class=\"n\">Least</th><th class=\"n\">Most</th><th class=\"n\">Rounds</th>",
        escape(caption)
    );
    if let Some(first) = first {
        let _infallible = write!(html, "<th class=\"n\">to {}</th>", escape(first.name));
    }
    html.push_str(if has_floor { "<th class=\"n\">to the floor</th>" } else { "" });
    html.push_str("</tr></thead>");
    for name in names {
        let rows: Vec<(&Subject<'_>, Summary)> = subjects
            .iter()
            .filter_map(|subject| Some((*subject, subject.summary(watchers, name)?)))
            .collect();
        html.push_str("<tbody>");
        for (at, (subject, summary)) in rows.iter().enumerate() {
            html.push_str("<tr>");
            if at == 0 {
                let (words, exact) = (escape(&words_of(name)), escape(name));
                let _infallible =
                    write!(html, "<th rowspan=\"{}\" title=\"{exact}\">{words}</th>", rows.len());
            }
            let show = |value: f64| Quantity::of(name).show(value);
            let _infallible = write!(
                html,
                "<td>{}</td><td class=\"n\"><b>{}</b></td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
                escape(subject.name),
                show(summary.median),
                show(summary.least),
                show(summary.most),
                summary.rounds
            );
            if let Some(first) = first {
                let same = first.name == subject.name;
                cell(if same { None } else { subject.ratio(first, watchers, name) }, html);
            }
            if has_floor {
                let floor = group.floor(watchers, name).filter(|floor| floor.name != subject.name);
                cell(floor.and_then(|floor| subject.ratio(floor, watchers, name)), html);
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody>");
    }
    html.push_str("</table></div>");
}

fn cell(ratio: Option<f64>, html: &mut String) {
    let text = ratio.map_or_else(|| "–".to_owned(), ratio_text);
    let _infallible = write!(html, "<td class=\"n\">{text}</td>");
}

fn ratio_text(ratio: f64) -> String {
    if ratio.abs() < 10.0 { format!("{ratio:.2} ×") } else { format!("{} ×", digits(ratio)) }
}

#[cfg(test)]
mod tests {
    use super::super::group::groups;
    use super::super::xml;
    use super::*;
    use crate::record::Record;

    fn record(subject: &str, round: u32, values: &[(&str, f64)]) -> Record {
        let mut record = Record::new("fanout", subject, round);
        record.watchers = 1000;
        values.iter().for_each(|(name, value)| record.set(name, *value));
        record
    }

    fn text(records: &[Record]) -> String {
        let groups = groups(records);
        let mut html = String::new();
        tables(&groups[0], 1000, &mut html);
        html
    }

    #[test]
    fn medians_spread_and_ratios() {
        let cpu = "server_cpu_ns_per_delivery";
        let records = [
            record("revcast", 1, &[(cpu, 4000.0), ("lost", 0.0)]),
            record("revcast", 2, &[(cpu, 6000.0), ("lost", 0.0)]),
            record("floor", 1, &[(cpu, 4000.0)]),
            record("floor", 2, &[(cpu, 4000.0)]),
            record("<b>other", 1, &[(cpu, 10_000.0)]),
        ];
        let html = text(&records);
        assert_eq!(xml::check(&html), Ok(()), "{html}");
        let row = |name: &str| {
            let at = html.find(&format!("<td>{name}</td>")).unwrap_or_else(|| panic!("{name}: {html}"));
            html[at..].split("</tr>").next().expect("a row").replace(" class=\"n\"", "")
        };
        assert_eq!(
            row("revcast"),
            "<td>revcast</td><td><b>5.00 µs</b></td><td>4.00 µs</td><td>6.00 µs</td><td>2</td><td>–</td><td>1.25 ×</td>"
        );
        assert!(row("&lt;b&gt;other").ends_with("<td>2.00 ×</td><td>2.50 ×</td>"), "{html}");
        assert!(row("floor").ends_with("<td>0.83 ×</td><td>–</td>"), "{html}");
    }

    #[test]
    fn no_values_are_told() {
        assert_eq!(text(&[record("a", 1, &[])]), "<p>1,000 watchers: no value was recorded.</p>");
    }

    #[test]
    fn a_scenario_of_its_own_kind_shows_its_own_values() {
        let html = text(&[record("a", 1, &[("all_live_seconds", 2.5), ("reconnected", 10_000.0)])]);
        assert!(
            html.contains("All live") && html.contains("2.50 s") && !html.contains("<details>"),
            "{html}"
        );
        let many = [("lost", 0.0), ("duplicated", 0.0), ("out_of_order", 0.0), ("odd_count", 3.0)];
        let html = text(&[record("a", 1, &many)]);
        assert!(html.contains("<summary>1 more values</summary>"), "{html}");
    }
}
