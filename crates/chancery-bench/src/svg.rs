//! A chart as SVG: axes, a line for each series, a legend.
//!
//! The colours follow the reader's preference for light or dark, and colour-blind people can tell
//! them apart; nothing is fetched from anywhere. Not here: runs and their figures (`chart.rs`).

use std::fmt::Write as _;

/// The contents of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Drawing {
    pub(crate) title: String,
    pub(crate) x: String,
    pub(crate) y: String,
    /// Both axes are logarithmic.
    pub(crate) log: bool,
    pub(crate) series: Vec<Series>,
}

/// One line of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) label: String,
    /// The points from left to right.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Returns the chart as the text of an SVG file.
pub(crate) fn draw(drawing: &Drawing) -> String {
    let points = || drawing.series.iter().flat_map(|series| &series.points);
    let across = Axis::over(points().map(|point| point.0), drawing.log);
    let up = Axis::over(points().map(|point| point.1), drawing.log);
    let height = BOTTOM + 52.0 + 18.0 * drawing.series.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\" role=\"img\">\n{STYLE}\
         <title>{title}</title>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"ink\" x=\"{LEFT}\" y=\"26\" font-size=\"16\">{title}</text>\n",
        title = escaped(&drawing.title),
    );
    axes(&mut svg, drawing, &across, &up);
    for (number, series) in drawing.series.iter().enumerate() {
        draw_line(&mut svg, series, number, |(x, y)| {
            (LEFT + across.at(x) * WIDE, BOTTOM - up.at(y) * HIGH)
        });
        legend(&mut svg, series, number, drawing.log);
    }
    svg.push_str("</svg>\n");
    svg
}

/// An axis: a range of values and the ticks on it.
struct Axis {
    log: bool,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// An axis from the smallest to the largest value, both made round.
    fn over(values: impl Iterator<Item = f64>, log: bool) -> Self {
        let used = |value: &f64| value.is_finite() && (!log || *value > 0.0);
        let values: Vec<f64> = values.filter(used).collect();
        let least = values.iter().copied().reduce(f64::min).unwrap_or(1.0);
        let most = values.iter().copied().reduce(f64::max).unwrap_or(1.0);
        let ticks = if log { powers(least, most) } else { steps(most) };
        let from = ticks.first().copied().unwrap_or(least);
        let to = ticks.last().copied().unwrap_or(most).max(from * 1.001);
        Self { log, from, to, ticks }
    }

    /// The place of a value on the axis: 0 at the beginning, 1 at the end.
    fn at(&self, value: f64) -> f64 {
        let scaled = |value: f64| if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let (from, to) = (scaled(self.from), scaled(self.to));
        ((scaled(value) - from) / (to - from)).clamp(0.0, 1.0)
    }
}

/// Ticks of a logarithmic axis: 1, 2 and 5 times powers of ten around a range, or the powers alone
/// if the range is wide.
fn powers(least: f64, most: f64) -> Vec<f64> {
    let (low, high) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    let parts: &[f64] = if high - low > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let all: Vec<f64> = (low..=high)
        .flat_map(|power| parts.iter().map(move |part| part * 10_f64.powi(power)))
        .collect();
    let (eps, last) = (1.0 + 1e-9, all.len().saturating_sub(1));
    let first = all.iter().rposition(|tick| *tick <= least * eps).unwrap_or(0);
    let end = all.iter().position(|tick| *tick * eps >= most).unwrap_or(last);
    all[first..=end.max(first)].to_vec()
}

/// Ticks of a linear axis: round steps from zero.
fn steps(most: f64) -> Vec<f64> {
    let most = if most > 0.0 { most } else { 1.0 };
    let power = 10_f64.powf((most / 5.0).log10().floor());
    let fits = |step: &f64| step * power * 6.0 >= most;
    let step = [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0) * power;
    (0..=(most / step).ceil() as u32).map(|number| f64::from(number) * step).collect()
}

fn axes(svg: &mut String, drawing: &Drawing, across: &Axis, up: &Axis) {
    let right = LEFT + WIDE;
    let top = BOTTOM - HIGH;
    for tick in &across.ticks {
        let (x, label) = (LEFT + across.at(*tick) * WIDE, axis_label(*tick));
        put(svg, format_args!("<path class=\"grid\" d=\"M{x:.1} {BOTTOM}V{top}\"/>\n"));
        let y = BOTTOM + 18.0;
        put(
            svg,
            format_args!(
                "<text class=\"ink\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>\n"
            ),
        );
    }
    for tick in &up.ticks {
        let (y, label) = (BOTTOM - up.at(*tick) * HIGH, axis_label(*tick));
        put(svg, format_args!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>\n"));
        let (x, y) = (LEFT - 8.0, y + 4.0);
        put(
            svg,
            format_args!(
                "<text class=\"ink\" x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{label}</text>\n"
            ),
        );
    }
    let (x, y) = (LEFT + WIDE / 2.0, BOTTOM + 38.0);
    let name = escaped(&drawing.x);
    put(
        svg,
        format_args!(
            "<text class=\"ink\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{name}</text>\n"
        ),
    );
    let (y, name) = (BOTTOM - HIGH / 2.0, escaped(&drawing.y));
    put(
        svg,
        format_args!(
            "<text class=\"ink\" transform=\"translate(18 {y}) rotate(-90)\" text-anchor=\"middle\">{name}</text>\n"
        ),
    );
}

fn draw_line(
    svg: &mut String,
    series: &Series,
    number: usize,
    place: impl Fn((f64, f64)) -> (f64, f64),
) {
    let colour = COLOURS[number % COLOURS.len()];
    let places: Vec<_> = series.points.iter().map(|point| place(*point)).collect();
    let path: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    put(
        svg,
        format_args!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\n",
            path.join(" ")
        ),
    );
    for ((x, y), (at, value)) in places.iter().zip(&series.points) {
        put(
            svg,
            format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"><title>{}: {}</title></circle>\n",
                axis_label(*at),
                axis_label(*value)
            ),
        );
    }
}

fn legend(svg: &mut String, series: &Series, number: usize, log: bool) {
    let (y, colour) = (BOTTOM + 62.0 + 18.0 * number as f64, COLOURS[number % COLOURS.len()]);
    let slope = exponent(&series.points).filter(|_| log);
    let slope = slope.map_or_else(String::new, |slope| format!(" (exponent {slope:.2})"));
    let (swatch, x, label) = (y - 9.0, LEFT + 18.0, escaped(&series.label));
    put(
        svg,
        format_args!(
            "<rect x=\"{LEFT}\" y=\"{swatch}\" width=\"11\" height=\"11\" fill=\"{colour}\"/>\n"
        ),
    );
    put(svg, format_args!("<text class=\"ink\" x=\"{x}\" y=\"{y}\">{label}{slope}</text>\n"));
}

/// The exponent by which a series grows: the slope of the straight line through its logarithms.
fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs = points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0).map(|(x, y)| (x.ln(), y.ln()));
    let logs: Vec<_> = logs.collect();
    let count = logs.len() as f64;
    let (x, y) =
        logs.iter().fold((0.0, 0.0), |sum, at| (sum.0 + at.0 / count, sum.1 + at.1 / count));
    let wide: f64 = logs.iter().map(|at| (at.0 - x).powi(2)).sum();
    let both: f64 = logs.iter().map(|at| (at.0 - x) * (at.1 - y)).sum();
    (wide > 0.0).then(|| both / wide)
}

/// A number as it is written at an axis.
fn axis_label(number: f64) -> String {
    let short =
        |divisor: f64, unit| format!("{}{unit}", (number / divisor * 100.0).round() / 100.0);
    match number.abs() {
        size if size >= 1e9 => short(1e9, "G"),
        size if size >= 1e6 => short(1e6, "M"),
        size if size >= 1e3 => short(1e3, "k"),
        size if size >= 0.1 => short(1.0, ""),
        _ => format!("{number}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    svg.write_fmt(text).ok(); // Writing to a string cannot fail.
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 84.0;
const WIDE: f64 = 606.0;
const BOTTOM: f64 = 372.0;
const HIGH: f64 = 326.0;

/// The palette of Okabe and Ito, without its yellow and its black.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

const STYLE: &str = "<style>
.paper{fill:#fff}.ink{fill:#24292f}.grid{stroke:#d0d7de;fill:none}
@media(prefers-color-scheme:dark){.paper{fill:#0d1117}.ink{fill:#e6edf3}.grid{stroke:#30363d}}
</style>
";

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(log: bool, points: Vec<(f64, f64)>) -> String {
        let series = vec![Series { label: "a <b>".into(), points }];
        draw(&Drawing { title: "t & u".into(), x: "streams".into(), y: "ms".into(), log, series })
    }

    #[test]
    fn a_chart_names_its_axes_its_series_and_how_they_grow() {
        let svg = drawn(true, vec![(100.0, 1.0), (1000.0, 10.0), (10_000.0, 100.0)]);
        for part in ["t &amp; u", ">streams<", ">ms<", "a &lt;b&gt; (exponent 1.00)", ">10k<"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(svg.contains("points=\"84.0,372.0 387.0,209.0 690.0,46.0\""), "{svg}");
    }

    #[test]
    fn strange_points_make_no_strange_chart() {
        for log in [true, false] {
            for points in
                [vec![], vec![(0.0, 0.0)], vec![(5.0, 5.0)], vec![(1.0, -1.0), (f64::NAN, 2.0)]]
            {
                let svg = drawn(log, points);
                assert!(svg.ends_with("</svg>\n") && svg.matches("inf").count() == 0, "{svg}");
            }
        }
    }

    #[test]
    fn ticks_are_round_and_enclose_the_values() {
        assert_eq!(powers(150.0, 900.0), [100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(
            powers(100.0, 100_000.0),
            [100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5]
        );
        assert_eq!(powers(1.0, 100_000.0).len(), 6);
        assert_eq!(steps(9.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    }
}
