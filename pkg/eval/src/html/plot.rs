//! Small SVG plots: lines and histograms over axes that begin at 0.

use super::Escaped;
use std::fmt::{self, Write};

const WIDTH: f64 = 490.0;
const HEIGHT: f64 = 320.0;
// The plotted area.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 465.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 270.0;

pub(super) struct Axis {
    pub(super) label: &'static str,
    /// Where it ends, over 0.
    pub(super) to: f64,
    pub(super) percent: bool,
}

pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) colour: &'static str,
    pub(super) points: Vec<[f64; 2]>,
    pub(super) dots: bool,
}

/// A histogram.
pub(super) struct Bars {
    pub(super) name: &'static str,
    pub(super) colour: &'static str,
    /// Of a bin, on the x axis.
    pub(super) width: f64,
    /// Where a bin begins, and its count.
    pub(super) counts: Vec<(f64, u64)>,
}

pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
    /// Drawn side by side within each bin.
    pub(super) bars: Vec<Bars>,
}

impl Plot {
    pub(super) fn write(&self, out: &mut String) -> fmt::Result {
        let title = Escaped(self.title);
        writeln!(
            out,
            "<figure><svg role=\"img\" aria-label=\"{title}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\"><text x=\"{LEFT}\" y=\"18\" style=\"font-weight:600\">{title}</text>"
        )?;
        self.write_axes(out)?;
        self.write_legend(out)?;
        self.bars.iter().enumerate().try_for_each(|(at, bars)| self.write_bars(at, bars, out))?;
        self.lines.iter().try_for_each(|line| self.write_line(line, out))?;
        out.write_str("</svg></figure>\n")
    }

    fn across(&self, x: f64) -> f64 {
        LEFT + (x / self.x.to).clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    fn up(&self, y: f64) -> f64 {
        BOTTOM - (y / self.y.to).clamp(0.0, 1.0) * (BOTTOM - TOP)
    }

    fn write_axes(&self, out: &mut String) -> fmt::Result {
        for tick in 0..=5 {
            let part = f64::from(tick) / 5.0;
            let (x, y) = (LEFT + part * (RIGHT - LEFT), BOTTOM - part * (BOTTOM - TOP));
            writeln!(
                out,
                "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                self.y.tick(part),
                BOTTOM + 16.0,
                self.x.tick(part),
            )?;
        }
        let (middle, low, centre) = (f64::midpoint(LEFT, RIGHT), BOTTOM + 38.0, f64::midpoint(TOP, BOTTOM));
        writeln!(
            out,
            "<text x=\"{middle}\" y=\"{low}\" text-anchor=\"middle\">{}</text><text transform=\"translate(14 {centre}) \
             rotate(-90)\" text-anchor=\"middle\">{}</text>",
            Escaped(self.x.label),
            Escaped(self.y.label),
        )
    }

    fn write_legend(&self, out: &mut String) -> fmt::Result {
        let lines = self.lines.iter().map(|line| (line.name, line.colour));
        let names = lines.chain(self.bars.iter().map(|bars| (bars.name, bars.colour)));
        for (at, (name, colour)) in (0_u32..).zip(names) {
            let x = LEFT + f64::from(at) * 150.0;
            writeln!(
                out,
                "<rect x=\"{x}\" y=\"28\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{}\" y=\"37\">{}</text>",
                x + 14.0,
                Escaped(name),
            )?;
        }
        Ok(())
    }

    fn write_bars(&self, at: usize, bars: &Bars, out: &mut String) -> fmt::Result {
        let width = (self.across(bars.width) - LEFT) / self.bars.len() as f64;
        for &(from, count) in bars.counts.iter().filter(|(_, count)| *count > 0) {
            let x = self.across(from) + at as f64 * width;
            let y = self.up(count as f64);
            let (height, colour) = (BOTTOM - y, bars.colour);
            writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"><title>{count}</title></rect>"
            )?;
        }
        Ok(())
    }

    fn write_line(&self, line: &Line, out: &mut String) -> fmt::Result {
        let colour = line.colour;
        let points: Vec<_> = line.points.iter().map(|[x, y]| (self.across(*x), self.up(*y))).collect();
        write!(out, "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"")?;
        points.iter().try_for_each(|(x, y)| write!(out, "{x:.1},{y:.1} "))?;
        out.write_str("\"/>\n")?;
        for (x, y) in points.iter().filter(|_| line.dots) {
            writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>")?;
        }
        Ok(())
    }
}

impl Axis {
    fn tick(&self, part: f64) -> String {
        let value = part * self.to;
        if self.percent {
            format!("{:.0} %", value * 100.0)
        } else if self.to > 1.0 {
            format!("{value:.0}")
        } else {
            format!("{value:.1}")
        }
    }
}
