//! Merit by arm and group, in per cent of the best arm of each environment.

use super::canvas::{Pen, SMALL_TEXT, TEXT, WIDTH};
use crate::board::Board;
use crate::slice::Slice;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use remuda_results::paper::{Area, Chart, Drawn};

const TITLE_HEIGHT: i32 = 26;
const ROW: u32 = 20;
/// Width of the names on the left.
const NAMES: u32 = 96;
const RIGHT: u32 = 8;
/// Smallest and largest width of a field; the smallest holds `100`.
const FIELD_MIN: u32 = 23;
const FIELD_MAX: u32 = 60;
const KEY_ROW: u32 = 16;
/// How many small letters fit into a line of the key.
const KEY_CHARS: usize = 72;
/// The name of a group in an author's suite can be long, so it is cut to this length.
const GROUP_CHARS: usize = 6;
/// Colour of full merit; no merit is white.
const FULL: RGBColor = RGBColor(42, 120, 214);
/// The largest share of the colour on which black text is legible.
const FULL_MIX: f64 = 0.6;

pub struct Heat<'a> {
    arms: Vec<&'a str>,
    groups: Vec<&'a Slice>,
    /// The meaning of the groups' letters.
    key: Vec<String>,
}

fn words(slice: &Slice) -> &str {
    slice.label.strip_prefix("group ").unwrap_or(&slice.label)
}

fn letter(slice: &Slice) -> &str {
    words(slice).split(':').next().unwrap_or_default()
}

fn wrapped(parts: impl Iterator<Item = String>, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + part.chars().count() <= most => {
                *line += &format!("; {part}");
            }
            _ => lines.push(part),
        }
    }
    lines
}

impl<'a> Heat<'a> {
    /// Arms are in the order of the ranking over all environments.
    pub fn of(board: &'a Board) -> Self {
        let ranks = board.slices.first().map_or(&[][..], |all| &all.ranks[..]);
        let groups: Vec<&Slice> = board.slices.iter().filter(|it| it.by == "group").collect();
        let said = groups.iter().filter(|it| letter(it) != words(it));
        let key = wrapped(said.map(|it| words(it).to_owned()), KEY_CHARS);
        Self { arms: ranks.iter().map(|rank| rank.driver.as_str()).collect(), groups, key }
    }

    fn field(&self) -> u32 {
        let room = WIDTH - NAMES - RIGHT;
        (room / self.groups.len().max(1) as u32).clamp(FIELD_MIN, FIELD_MAX)
    }

    /// Share of the best merit, 0 to 1; `None` if the group has no environment that all arms ran.
    fn merit(group: &Slice, arm: &str) -> Option<f64> {
        let rank = group.ranks.iter().find(|it| it.driver == arm)?;
        (rank.environments > 0).then_some(1.0 - rank.regret.middle)
    }
}

impl Chart for Heat<'_> {
    fn size(&self) -> (u32, u32) {
        let width = NAMES + RIGHT + self.field() * self.groups.len() as u32;
        let rows = (self.arms.len() as u32 + 1) * ROW + self.key.len() as u32 * KEY_ROW;
        (width.max(WIDTH), TITLE_HEIGHT as u32 + rows + 16)
    }

    fn draw<DB: DrawingBackend>(&self, scale: u32, paper: &Area<DB>) -> Drawn<DB> {
        let pen = Pen(scale);
        let left = pen.text(TEXT, HPos::Left);
        let title = "mean merit by group, of the best arm (%)";
        paper.draw_text(title, &left, (pen.px(12), pen.px(14)))?;
        let (names, small) = (pen.text(TEXT, HPos::Right), pen.text(SMALL_TEXT, HPos::Center));
        let field = self.field() as i32;
        let across = |column: usize| pen.px(NAMES as i32 + field * column as i32);
        let down = |row: usize| pen.px(TITLE_HEIGHT + ROW as i32 * row as i32);
        let half = |points: u32| pen.px(points as i32) / 2;
        for (column, group) in self.groups.iter().enumerate() {
            let place = (across(column) + pen.px(field) / 2, down(0) + half(ROW));
            let short: String = letter(group).chars().take(GROUP_CHARS).collect();
            paper.draw_text(&short, &small, place)?;
        }
        for (row, arm) in self.arms.iter().enumerate() {
            let middle = down(row + 1) + half(ROW);
            paper.draw_text(arm, &names, (pen.px(NAMES as i32 - 8), middle))?;
            for (column, group) in self.groups.iter().enumerate() {
                let Some(merit) = Self::merit(group, arm) else { continue };
                let corner = (across(column), down(row + 1));
                let end = (across(column + 1) - pen.px(1), down(row + 2) - pen.px(1));
                let fill = FULL.mix(merit.clamp(0.0, 1.0) * FULL_MIX).filled();
                paper.draw(&Rectangle::new([corner, end], fill))?;
                let text = format!("{:.0}", merit * 100.0);
                paper.draw_text(&text, &small, (corner.0 + pen.px(field) / 2, middle))?;
            }
        }
        let key = pen.text(SMALL_TEXT, HPos::Left);
        for (row, line) in self.key.iter().enumerate() {
            let below = down(self.arms.len() + 1) + pen.px(14 + KEY_ROW as i32 * row as i32);
            paper.draw_text(line, &key, (pen.px(12), below))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_on_in_the_next_line() {
        let parts = ["A: one", "B: two", "C: three"].map(str::to_owned);
        assert_eq!(wrapped(parts.into_iter(), 14), ["A: one; B: two", "C: three"]);
    }
}
