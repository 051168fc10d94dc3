//! Draws the interface.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, List, ListItem, ListState, Paragraph};

use super::{Focus, Interface, Mark, Opened, Pane, Row};
use crate::commands::dev::events::EventLine;
use crate::commands::dev::screen::in_one_line;

const GOOD: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Yellow);
const QUIET: Style = Style::new().fg(Color::DarkGray);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Width of the column with objects' names.
const TITLE: usize = 44;

const KEYS: &str = " ↑↓ move  enter open  / filter  ! failing only  1-4 tab pages  ? help  q quit";

const HELP: &str = "\
 ↑ ↓ j k          one line         PgUp PgDn        a page
 g G              start, end       Tab              objects or pane
 Enter            open the object  Esc              back, or all objects again
 /                filter by name, state or detail
 !                only what is not ready
 1 2 3 4          problems, events, log, messages
 q  Ctrl-C        end: cluster and operator stop, nothing is left

 In another terminal, kubectl and helm work with the KUBECONFIG in the first line.";

impl Interface {
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let [header, body, footer] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
                .areas(frame.area());
        frame.render_widget(Line::styled(format!(" {}", self.title), BOLD), header);
        match &self.opened {
            Some(opened) => draw_opened(opened, frame, body, footer),
            None => {
                let [objects, pane] =
                    Layout::vertical([Constraint::Percentage(60), Constraint::Percentage(40)]).areas(body);
                self.draw_objects(frame, objects);
                self.draw_pane(frame, pane);
                self.draw_footer(frame, footer);
            }
        }
        if self.shows_help {
            let lines = u16::try_from(HELP.lines().count()).unwrap_or(u16::MAX).saturating_add(2);
            let area = frame.area();
            let area =
                Rect { y: area.height.saturating_sub(lines) / 2, height: lines.min(area.height), ..area };
            frame.render_widget(Clear, area);
            frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" Keys ")), area);
        }
    }

    fn draw_objects(&self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.rows();
        let mut title = format!(" Objects ({}) ", rows.len());
        if !self.filter.is_empty() {
            title.push_str(&format!("with \"{}\" ", in_one_line(&self.filter)));
        }
        if self.only_failing {
            title.push_str("that are not ready ");
        }
        let block = Block::new().borders(Borders::TOP).title(title).border_style(self.border(Focus::Objects));
        let items = rows.iter().map(item);
        let mut state = ListState::default();
        state.select((!rows.is_empty()).then(|| self.cursor(&rows)));
        let list =
            List::new(items).block(block).highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(list, area, &mut state);
    }

    fn draw_pane(&self, frame: &mut Frame<'_>, area: Rect) {
        let problems = self.problems();
        let mut tabs = Vec::new();
        for (index, pane) in Pane::ALL.into_iter().enumerate() {
            let count = match pane {
                Pane::Problems if !problems.is_empty() => format!(" ({})", problems.len()),
                _ => String::new(),
            };
            let mut style = if pane == Pane::Problems && !problems.is_empty() { BAD } else { Style::new() };
            if pane == self.pane {
                style = style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
            }
            tabs.push(Span::raw(" "));
            tabs.push(Span::styled(format!("{} {}{count}", index + 1, pane.title()), style));
            tabs.push(Span::raw(" "));
        }
        let block =
            Block::new().borders(Borders::TOP).title(Line::from(tabs)).border_style(self.border(Focus::Pane));
        let lines: Vec<Line<'_>> = match self.pane {
            Pane::Problems if problems.is_empty() => vec![Line::styled(" nothing is wrong", QUIET)],
            Pane::Problems => problems.iter().map(|line| line_of(line, BAD)).collect(),
            Pane::Events => {
                let events = self.scene.events.iter();
                let line = |event: &EventLine| {
                    let style = if event.warning { BAD } else { Style::new() };
                    line_of(&format!("{}  {}: {}", event.title, event.reason, event.note), style)
                };
                events.map(line).collect()
            }
            Pane::Log => self.log.iter().map(|line| line_of(line, Style::new())).collect(),
            Pane::Messages => self
                .messages
                .iter()
                .map(|message| {
                    let (mark, style) = match message.mark {
                        Mark::Done => ("✓", GOOD),
                        Mark::Doing => ("⋯", QUIET),
                        Mark::Output => (" ", Style::new()),
                        Mark::Error => ("✗", BAD),
                    };
                    let text = in_one_line(&message.text);
                    Line::from(vec![Span::styled(format!(" {mark} "), style), Span::raw(text)])
                })
                .collect(),
        };
        // The latest lines are at the end, unless the user has scrolled back.
        let height = usize::from(area.height.saturating_sub(1));
        let end = lines.len().saturating_sub(self.back).max(height.min(lines.len()));
        let shown: Vec<Line<'_>> = lines.into_iter().take(end).skip(end.saturating_sub(height)).collect();
        frame.render_widget(Paragraph::new(shown).block(block), area);
    }

    fn draw_footer(&self, frame: &mut Frame<'_>, area: Rect) {
        let line = match self.is_typing {
            true => Line::from(format!(" /{}▏  enter keeps it, esc shows all", in_one_line(&self.filter))),
            false => Line::styled(KEYS, QUIET),
        };
        frame.render_widget(line, area);
    }

    fn border(&self, focus: Focus) -> Style {
        if self.focus == focus { BOLD } else { QUIET }
    }
}

fn draw_opened(opened: &Opened, frame: &mut Frame<'_>, area: Rect, footer: Rect) {
    let lines = opened.lines.len();
    let title = format!(" {} ", in_one_line(&opened.title));
    let place = format!(" {} of {lines} ", (opened.offset + 1).min(lines));
    let block = Block::new().borders(Borders::TOP).title(title).title(Line::from(place).right_aligned());
    let shown = opened.lines.iter().skip(opened.offset).take(usize::from(area.height));
    let shown: Vec<Line<'_>> = shown.map(|line| line_of(line, Style::new())).collect();
    frame.render_widget(Paragraph::new(shown).block(block), area);
    frame.render_widget(Line::styled(" ↑↓ PgUp PgDn scroll  esc back", QUIET), footer);
}

fn item<'a>(row: &Row<'a>) -> ListItem<'a> {
    let object = row.object;
    let style = if object.ready { GOOD } else { BAD };
    let title = format!(" {}{}", row.branch, in_one_line(&object.title));
    ListItem::new(Line::from(vec![
        Span::raw(format!("{title:<TITLE$} ")),
        Span::styled(format!("{:<12} ", in_one_line(&object.state)), style),
        Span::styled(in_one_line(&object.detail), QUIET),
    ]))
}

fn line_of(text: &str, style: Style) -> Line<'static> {
    Line::styled(format!(" {}", in_one_line(text)), style)
}
