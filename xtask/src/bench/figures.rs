//! The results of a benchmark: runs, the figures of each, and the goals they decide.
//!
//! A value is a ratio of medians. Its spread is the least and the greatest ratio of runs that were
//! made one after the other.

use serde_json::{Map, Value, json};

use super::side::Side;
use super::specs::{SPECS, Spec, spec};

/// One comparison: the runs of every side, and the goals they decide.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) title: String,
    pub(crate) series: Vec<Series>,
    pub(crate) goals: Vec<Goal>,
    /// The command lines of one run.
    pub(crate) commands: Vec<String>,
    /// Notes on the noise of the machine.
    pub(crate) notes: Vec<String>,
    pub(crate) took: u64,
    /// True if all of its goals were asked for.
    pub(crate) complete: bool,
    /// The commit and the day.
    pub(crate) at: Value,
}

/// The runs of one side at one size.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    pub(crate) side: String,
    /// The name of the varied quantity, and its value.
    pub(crate) x: Option<(&'static str, f64)>,
    /// The figures of each run, by name.
    pub(crate) runs: Vec<Map<String, Value>>,
    /// The reason why there are no more runs.
    pub(crate) failed: Option<String>,
}

/// A goal and its measured value.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    pub(crate) spec: &'static Spec,
    pub(crate) value: Option<f64>,
    pub(crate) spread: Option<(f64, f64)>,
    pub(crate) ours: Vec<f64>,
    pub(crate) theirs: Vec<f64>,
    /// The name of the other side, and the unit of both figures.
    pub(crate) beside: String,
    pub(crate) unit: String,
    /// The reason why there is no value.
    pub(crate) why: Option<String>,
}

impl Comparison {
    pub(crate) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// A comparison that could not be made.
    pub(crate) fn impossible(goals: &[&str], why: &str) -> Self {
        let goals = SPECS.iter().filter(|spec| goals.contains(&spec.goal));
        let goals = goals.map(|spec| Goal::unmeasured(spec, why.to_owned())).collect();
        Self { title: "Not measured".to_owned(), goals, ..Self::default() }
    }

    /// Marks all goals as missed if one of our runs failed, however good the others were.
    pub(crate) fn mark_missed(&mut self) {
        let ours = self.series.iter().filter(|series| series.side == Side::Chancery.name());
        let Some(fault) = ours.filter_map(|series| series.failed.clone()).next() else { return };
        for goal in &mut self.goals {
            goal.value = None;
            goal.why = Some(format!("a run of Chancery failed: {fault}"));
        }
    }

    /// Drops the goals that were not asked for.
    pub(crate) fn retain_goals(&mut self, wanted: impl Fn(&str) -> bool) {
        self.goals.retain(|goal| wanted(goal.spec.goal));
    }

    /// Decides a goal by a figure of ours over theirs.
    pub(crate) fn ratio(
        &mut self,
        (goal, part): (&str, &str),
        ours: usize,
        theirs: usize,
        of: Figure,
    ) {
        let Some(spec) = spec(goal, part) else { return };
        let (ours, theirs) = (&self.series[ours], &self.series[theirs]);
        self.goals.push(Goal::ratio(spec, ours, theirs, of));
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "title": self.title,
            "goals": self.goals.iter().map(Goal::json).collect::<Vec<_>>(),
            "series": self.series.iter().map(Series::json).collect::<Vec<_>>(),
            "commands": self.commands,
            "notes": self.notes,
            "took_s": self.took,
            "at": self.at,
        })
    }
}

/// A figure of a run: its name, its unit, and the divisor that leads to this unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) per: f64,
}

impl Series {
    /// One figure of every run.
    pub(crate) fn of_each_run(&self, figure: Figure) -> Vec<f64> {
        let values = self.runs.iter().filter_map(|run| run.get(figure.name)?.as_f64());
        values.map(|value| value / figure.per).collect()
    }

    /// The name of the side, with the value of the varied quantity.
    fn name(&self) -> String {
        match self.x {
            Some((what, x)) => format!("{}, {x} {what}", self.side),
            None => self.side.clone(),
        }
    }

    pub(crate) fn median(&self, figure: Figure) -> Option<f64> {
        median(&self.of_each_run(figure))
    }

    fn json(&self) -> Value {
        let (x_name, x) = self.x.unzip();
        json!({"side": self.side, "x_name": x_name, "x": x, "runs": self.runs, "failed": self.failed})
    }
}

impl Goal {
    /// A goal with the measured value itself, and not a ratio.
    pub(crate) fn plain(spec: &'static Spec, ours: Vec<f64>, beside: &str) -> Self {
        let (value, spread) = (median(&ours), spread(&ours));
        let (theirs, unit) = (Vec::new(), spec.unit.to_owned());
        let why = value.is_none().then(|| "no run came to its end".to_owned());
        Self { spec, value, spread, ours, theirs, beside: beside.to_owned(), unit, why }
    }

    fn ratio(spec: &'static Spec, ours: &Series, theirs: &Series, of: Figure) -> Self {
        let why = [ours, theirs].iter().find_map(|side| {
            let fault = side.failed.clone()?;
            Some(format!("{}: {fault}", side.side))
        });
        let (us, them) = (ours.of_each_run(of), theirs.of_each_run(of));
        let value = median(&us).zip(median(&them)).map(|(us, them)| us / them);
        let pairs: Vec<f64> = us.iter().zip(&them).map(|(us, them)| us / them).collect();
        let (beside, unit) = (theirs.name(), of.unit.to_owned());
        let value = value.filter(|value| value.is_finite() && why.is_none());
        let spread = spread(&pairs);
        Self { spec, value, spread, ours: us, theirs: them, beside, unit, why }
    }

    pub(crate) fn unmeasured(spec: &'static Spec, why: String) -> Self {
        Self { why: Some(why), ..Self::plain(spec, Vec::new(), "") }
    }

    pub(crate) fn met(&self) -> bool {
        self.value.is_some_and(|value| value <= self.spec.must)
    }

    /// The line of this goal for the terminal.
    pub(crate) fn summary(&self) -> String {
        let met = if self.met() { "met" } else { "NOT met" };
        let value = self.value.map_or_else(|| "no value".to_owned(), |value| format!("{value:.3}"));
        let why = self.why.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
        let Spec { goal, what, must, unit, .. } = self.spec;
        format!("{goal} {met}: {value} {unit} of at most {must:.3}{why}: {what}")
    }

    pub(crate) fn json(&self) -> Value {
        let Spec { goal, part, what, must, hope, unit } = *self.spec;
        json!({
            "goal": goal, "part": part, "what": what, "value": self.value, "must": must,
            "hope": hope, "met": self.met(), "unit": unit, "why": self.why,
            "spread": self.spread.map(|(least, most)| [least, most]),
            "beside": self.beside, "runs_unit": self.unit,
            "runs": {"ours": self.ours, "theirs": self.theirs},
        })
    }
}

/// The new comparisons in place of the old ones of the same goals, or the same title.
pub(crate) fn merged(old: Option<Value>, machine: Value, done: &[Comparison]) -> Value {
    let new: Vec<Value> = done.iter().map(Comparison::json).collect();
    let decided: Vec<_> = new.iter().flat_map(names).collect();
    let kept = old
        .iter()
        .flat_map(|old| list(&old["comparisons"]))
        .filter(|comparison| !names(comparison).iter().any(|goal| decided.contains(goal)));
    let mut all: Vec<Value> = kept.cloned().chain(new.iter().cloned()).collect();
    all.sort_by_key(|comparison| names(comparison).first().map_or(u32::MAX, |goal| number(goal)));
    json!({"machine": machine, "comparisons": all})
}

/// The goals a comparison decides, from its JSON.
fn names(comparison: &Value) -> Vec<String> {
    let goals = list(&comparison["goals"]).iter();
    goals.map(|goal| goal["goal"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The number in `G12`.
fn number(goal: &str) -> u32 {
    goal.trim_start_matches('G').parse().unwrap_or(0)
}

/// The members of a JSON array.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The median. For an even number of values it is the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        even if even % 2 == 0 => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        _ => Some(sorted[middle]),
    }
}

/// The least and the greatest value.
pub(crate) fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    Some((least, values.iter().copied().max_by(f64::total_cmp)?))
}

/// The exponent of a power law through these points: least squares on logarithms.
pub(crate) fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<_> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let over: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let under: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    Some(over / under).filter(|exponent| exponent.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(side: &str, values: &[f64]) -> Series {
        let run = |value: &f64| json!({"cpu": value}).as_object().unwrap().clone();
        let runs = values.iter().map(run).collect();
        Series { side: side.to_owned(), runs, ..Series::default() }
    }

    const CPU: Figure = Figure { name: "cpu", unit: "us", per: 1.0 };

    #[test]
    fn a_value_is_the_ratio_of_medians_and_the_spread_that_of_pairs() {
        let mut comparison = Comparison::new("x");
        comparison.series = vec![series("us", &[2.0, 3.0, 9.0]), series("them", &[1.0, 3.0, 3.0])];
        comparison.ratio(("G1", ""), 0, 1, CPU);
        let goal = &comparison.goals[0];
        assert_eq!((goal.value, goal.spread), (Some(1.0), Some((1.0, 3.0))));
        assert!(goal.met());
    }

    #[test]
    fn a_comparator_that_fails_is_no_success() {
        let failed = Series { failed: Some("no go".to_owned()), ..series("them", &[1e9]) };
        let mut comparison = Comparison::new("x");
        comparison.series = vec![series("us", &[1.0]), failed];
        comparison.ratio(("G2", ""), 0, 1, CPU);
        let json = comparison.goals[0].json();
        assert_eq!((&json["met"], &json["value"]), (&json!(false), &Value::Null));
        assert_eq!(json["why"], "them: no go");
    }

    #[test]
    fn a_run_of_ours_that_fails_leaves_nothing_met() {
        let mut comparison = Comparison::new("x");
        let failed = Some("reset".to_owned());
        comparison.series = vec![Series { failed, ..series("Chancery", &[1.0]) }];
        let spec = spec("G6", "").unwrap();
        comparison.goals.push(Goal::plain(spec, vec![1.0], ""));
        comparison.mark_missed();
        assert!(!comparison.goals[0].met());
    }

    #[test]
    fn an_exponent_is_found() {
        let points = [10.0, 100.0, 1000.0].map(|x: f64| (x, 3.0 * x.powf(1.2)));
        assert!((exponent(&points).unwrap() - 1.2).abs() < 1e-9);
        assert_eq!(exponent(&[(1.0, 1.0)]), None);
    }

    #[test]
    fn new_figures_take_the_place_of_those_for_the_same_goals() {
        let old = json!({"comparisons": [
            {"title": "old one", "goals": [{"goal": "G12"}]},
            {"title": "old two", "goals": [{"goal": "G1"}]}]});
        let mut new = Comparison::new("new");
        new.series = vec![series("us", &[1.0]), series("them", &[1.0])];
        new.ratio(("G1", ""), 0, 1, CPU);
        let merged = merged(Some(old), Value::Null, &[new]);
        let titles: Vec<_> = list(&merged["comparisons"]).iter().map(|one| &one["title"]).collect();
        assert_eq!(titles, ["new", "old one"]);
    }
}
