//! Limits on scaling: bounds, stabilization windows and policies, based on earlier decisions.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscalerBehavior};

/// Default window in which higher recommendations prevent scaling down.
const DOWNSCALE_STABILIZATION: SignedDuration = SignedDuration::from_mins(5);
/// Without a behavior, scaling up goes to at most this number of replicas or to twice the current one.
const SCALE_UP_MINIMUM: i32 = 4;

/// A number of replicas as calculated at one time, before any limit.
#[derive(Debug, Clone, Copy)]
struct Recommendation {
    replicas: i32,
    at: Timestamp,
}

/// A change of a target's replicas at one time.
#[derive(Debug, Clone, Copy)]
struct ScaleEvent {
    change: i32,
    at: Timestamp,
}

/// Earlier decisions about a target.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    recommendations: Vec<Recommendation>,
    ups: Vec<ScaleEvent>,
    downs: Vec<ScaleEvent>,
}

/// The desired replicas, and what limits them.
#[derive(Debug, Clone, Copy)]
pub(super) struct NormalizationArg<'a> {
    pub(super) behavior: Option<&'a HorizontalPodAutoscalerBehavior>,
    pub(super) min: i32,
    pub(super) max: i32,
    pub(super) current: i32,
    pub(super) desired: i32,
    pub(super) now: Timestamp,
}

/// A condition's reason and message.
pub(super) type Reason = (&'static str, &'static str);

/// The replicas after all limits, and the conditions that explain them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) replicas: i32,
    /// Reason and message of the condition `AbleToScale`.
    pub(super) able: Reason,
    /// Status of the condition `ScalingLimited`.
    pub(super) is_limited: bool,
    /// Reason and message of the condition `ScalingLimited`.
    pub(super) limited: Reason,
}

const READY: Reason = ("ReadyForNewScale", "recommended size matches current size");
const UP_STABILIZED: Reason = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN_STABILIZED: Reason = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const WITHIN_RANGE: Reason = ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_FEW: Reason =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const TOO_MANY: Reason =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const UP_LIMIT: Reason =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: Reason =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");

impl History {
    /// Records the target's current replicas as the first recommendation.
    pub(super) fn begin(&mut self, replicas: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push(Recommendation { replicas, at: now });
        }
    }

    /// Applies all limits to the desired replicas.
    pub(super) fn decide(&mut self, arg: NormalizationArg<'_>) -> Decision {
        let rules = arg.behavior.and_then(|b| Some((b.scale_up.as_ref()?, b.scale_down.as_ref()?)));
        let (stabilized, stabilized_by) = match rules {
            Some((up, down)) => self.stabilize(arg, window(up), window_or(down, DOWNSCALE_STABILIZATION)),
            None => (self.stabilize_down(arg), DOWN_STABILIZED),
        };
        let (replicas, limited) = match rules {
            Some((up, down)) => self.limit_rate(arg, stabilized, up, down),
            None => limit(arg, stabilized),
        };
        Decision {
            replicas,
            able: if stabilized == arg.desired { READY } else { stabilized_by },
            is_limited: replicas != stabilized,
            limited,
        }
    }

    /// Records a recommendation, reusing the slot of the last expired one.
    fn recommend(&mut self, replicas: i32, now: Timestamp, is_old: impl Fn(&Recommendation) -> bool) {
        let new = Recommendation { replicas, at: now };
        match self.recommendations.iter_mut().rev().find(|recommendation| is_old(recommendation)) {
            Some(old) => *old = new,
            None => self.recommendations.push(new),
        }
    }

    /// Returns the highest recommendation of the default window.
    fn stabilize_down(&mut self, arg: NormalizationArg<'_>) -> i32 {
        let is_old = |r: &Recommendation| arg.now.duration_since(r.at) > DOWNSCALE_STABILIZATION;
        let recent = self.recommendations.iter().filter(|r| !is_old(r)).map(|r| r.replicas);
        let highest = recent.fold(arg.desired, i32::max);
        self.recommend(arg.desired, arg.now, is_old);
        highest
    }

    /// Moves the current replicas to between the lowest and the highest recommendation of the windows.
    fn stabilize(
        &mut self,
        arg: NormalizationArg<'_>,
        up: SignedDuration,
        down: SignedDuration,
    ) -> (i32, Reason) {
        let age = |r: &Recommendation| arg.now.duration_since(r.at);
        let within = |window: SignedDuration| {
            self.recommendations.iter().filter(move |r| age(r) < window).map(|r| r.replicas)
        };
        let lowest = within(up).fold(arg.desired, i32::min);
        let highest = within(down).fold(arg.desired, i32::max);
        // If the bounds cross, the upper one wins.
        let stabilized = arg.current.max(lowest).min(highest);
        self.recommend(arg.desired, arg.now, |r| age(r) > up && age(r) > down);
        (stabilized, if arg.desired >= arg.current { UP_STABILIZED } else { DOWN_STABILIZED })
    }

    /// Applies the bounds and the policies of a behavior.
    fn limit_rate(
        &self,
        arg: NormalizationArg<'_>,
        desired: i32,
        up: &HPAScalingRules,
        down: &HPAScalingRules,
    ) -> (i32, Reason) {
        let current = arg.current;
        if desired > current {
            let rate = self.up_limit(arg, up).max(current);
            let (most, reason) = if arg.max > rate { (rate, UP_LIMIT) } else { (arg.max, TOO_MANY) };
            if desired > most {
                return (most, reason);
            }
        } else if desired < current {
            let rate = self.down_limit(arg, down).min(current);
            let (least, reason) = if arg.min < rate { (rate, DOWN_LIMIT) } else { (arg.min, TOO_FEW) };
            if desired < least {
                return (least, reason);
            }
        }
        (desired, WITHIN_RANGE)
    }

    /// Returns the replicas at the start of a period that ends now.
    fn at_start(&self, arg: NormalizationArg<'_>, period: i32) -> i32 {
        let period = SignedDuration::from_secs(period.into());
        let changed = |events: &[ScaleEvent]| -> i32 {
            let recent = events.iter().filter(|event| arg.now.duration_since(event.at) < period);
            recent.fold(0, |sum, event| sum.saturating_add(event.change))
        };
        arg.current.saturating_sub(changed(&self.ups)).saturating_add(changed(&self.downs))
    }

    /// Returns the maximum number of replicas that the policies allow.
    fn up_limit(&self, arg: NormalizationArg<'_>, rules: &HPAScalingRules) -> i32 {
        let proposals = rules.policies.iter().flatten().map(|policy| {
            let start = self.at_start(arg, policy.period_seconds);
            match policy.type_.as_str() {
                "Pods" => start.saturating_add(policy.value),
                _ => (f64::from(start) * (1.0 + f64::from(policy.value) / 100.0)).ceil() as i32,
            }
        });
        match rules.select_policy.as_deref() {
            Some("Disabled") => arg.current,
            Some("Min") => proposals.min().unwrap_or(i32::MAX),
            _ => proposals.max().unwrap_or(i32::MIN),
        }
    }

    /// Returns the minimum number of replicas that the policies allow.
    fn down_limit(&self, arg: NormalizationArg<'_>, rules: &HPAScalingRules) -> i32 {
        let proposals = rules.policies.iter().flatten().map(|policy| {
            let start = self.at_start(arg, policy.period_seconds);
            match policy.type_.as_str() {
                "Pods" => start.saturating_sub(policy.value),
                _ => (f64::from(start) * (1.0 - f64::from(policy.value) / 100.0)) as i32,
            }
        });
        match rules.select_policy.as_deref() {
            Some("Disabled") => arg.current,
            Some("Min") => proposals.max().unwrap_or(i32::MIN),
            _ => proposals.min().unwrap_or(i32::MAX),
        }
    }

    /// Records that a target was scaled, for as long as a policy looks back.
    pub(super) fn scaled(
        &mut self,
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
        from: i32,
        to: i32,
        now: Timestamp,
    ) {
        let Some(behavior) = behavior else { return };
        let (events, rules) = if to > from {
            (&mut self.ups, &behavior.scale_up)
        } else {
            (&mut self.downs, &behavior.scale_down)
        };
        let policies = rules.iter().flat_map(|rules| rules.policies.iter().flatten());
        let longest = policies.map(|policy| policy.period_seconds).max().unwrap_or_default();
        events.retain(|event| now.duration_since(event.at) <= SignedDuration::from_secs(longest.into()));
        events.push(ScaleEvent { change: to.saturating_sub(from).saturating_abs(), at: now });
    }
}

fn window(rules: &HPAScalingRules) -> SignedDuration {
    window_or(rules, SignedDuration::ZERO)
}

fn window_or(rules: &HPAScalingRules, default: SignedDuration) -> SignedDuration {
    rules.stabilization_window_seconds.map_or(default, |seconds| SignedDuration::from_secs(seconds.into()))
}

/// Applies the bounds, and the default limit on scaling up.
fn limit(arg: NormalizationArg<'_>, desired: i32) -> (i32, Reason) {
    let rate = arg.current.saturating_mul(2).max(SCALE_UP_MINIMUM);
    let (most, reason) = if arg.max > rate { (rate, UP_LIMIT) } else { (arg.max, TOO_MANY) };
    if desired < arg.min {
        (arg.min, TOO_FEW)
    } else if desired > most {
        (most, reason)
    } else {
        (desired, WITHIN_RANGE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn behavior(up: Value, down: Value) -> HorizontalPodAutoscalerBehavior {
        serde_json::from_value(json!({"scaleUp": up, "scaleDown": down})).unwrap()
    }

    fn defaults() -> HorizontalPodAutoscalerBehavior {
        behavior(
            json!({
                "stabilizationWindowSeconds": 0, "selectPolicy": "Max",
                "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15},
                ],
            }),
            json!({
                "selectPolicy": "Max",
                "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
            }),
        )
    }

    fn arg(
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
        current: i32,
        desired: i32,
        second: i64,
    ) -> NormalizationArg<'_> {
        NormalizationArg { behavior, min: 1, max: 100, current, desired, now: at(second) }
    }

    #[test]
    fn without_a_behavior_replicas_at_most_double() {
        let mut history = History::default();
        let decision = history.decide(arg(None, 3, 50, 0));
        assert_eq!((decision.replicas, decision.limited, decision.is_limited), (6, UP_LIMIT, true));
        assert_eq!(history.decide(arg(None, 1, 50, 15)).replicas, 4);
        let capped = NormalizationArg { max: 5, ..arg(None, 3, 50, 30) };
        assert_eq!(history.decide(capped).limited, TOO_MANY);
    }

    #[test]
    fn without_a_behavior_the_highest_of_five_minutes_counts() {
        let mut history = History::default();
        history.begin(8, at(0));
        let decision = history.decide(arg(None, 8, 2, 15));
        assert_eq!((decision.replicas, decision.able), (8, DOWN_STABILIZED));
        assert_eq!(history.decide(arg(None, 8, 6, 30)).replicas, 8);
        assert_eq!(history.decide(arg(None, 8, 2, 300)).replicas, 8);
        // The first recommendation is too old, the third one is not.
        assert_eq!(history.decide(arg(None, 8, 2, 301)).replicas, 6);
        let decision = history.decide(arg(None, 6, 0, 700));
        assert_eq!((decision.replicas, decision.limited, decision.able), (1, TOO_FEW, READY));
    }

    #[test]
    fn places_of_old_recommendations_are_used_again() {
        let mut history = History::default();
        for second in 0..10_000 {
            history.decide(arg(None, 3, 3, second * 15));
        }
        assert!(history.recommendations.len() <= 22, "{}", history.recommendations.len());
    }

    #[test]
    fn default_policies_add_four_pods_or_double_within_fifteen_seconds() {
        let (behavior, mut history) = (defaults(), History::default());
        let mut size = 1;
        for (second, expected) in [(0, 5), (15, 10), (30, 20), (35, 20), (45, 40)] {
            let decision = history.decide(arg(Some(&behavior), size, 90, second));
            assert_eq!(decision.replicas, expected, "at {second}");
            if decision.replicas != size {
                history.scaled(Some(&behavior), size, decision.replicas, at(second));
            }
            size = decision.replicas;
        }
    }

    #[test]
    fn scale_up_waits_for_its_window() {
        let mut behavior = defaults();
        behavior.scale_up.as_mut().unwrap().stabilization_window_seconds = Some(60);
        let mut history = History::default();
        history.begin(2, at(0));
        let decision = history.decide(arg(Some(&behavior), 2, 4, 30));
        assert_eq!((decision.replicas, decision.able), (2, UP_STABILIZED));
        // Of the recommendations 2 at 0 s and 4 at 30 s, the first is too old.
        let decision = history.decide(arg(Some(&behavior), 2, 5, 60));
        assert_eq!((decision.replicas, decision.able), (4, UP_STABILIZED));
    }

    #[test]
    fn scale_down_follows_policies_over_their_periods() {
        let policies = json!([
            {"type": "Pods", "value": 4, "periodSeconds": 60},
            {"type": "Percent", "value": 10, "periodSeconds": 60},
        ]);
        let rules = |select: &str| json!({"stabilizationWindowSeconds": 0, "selectPolicy": select, "policies": policies});
        let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": []});
        // 80 - 4 = 76, 80 × 0.9 = 72.
        for (select, expected, reason) in
            [("Max", 72, DOWN_LIMIT), ("Min", 76, DOWN_LIMIT), ("Disabled", 80, DOWN_LIMIT)]
        {
            let behavior = behavior(up.clone(), rules(select));
            let decision = History::default().decide(arg(Some(&behavior), 80, 1, 0));
            assert_eq!((decision.replicas, decision.limited), (expected, reason), "{select}");
        }
        let behavior = behavior(up, rules("Min"));
        let mut history = History::default();
        history.scaled(Some(&behavior), 80, 76, at(0));
        // The four pods of this minute have already been removed.
        let decision = history.decide(arg(Some(&behavior), 76, 1, 59));
        assert_eq!((decision.replicas, decision.is_limited), (76, true));
        assert_eq!(history.decide(arg(Some(&behavior), 76, 1, 60)).replicas, 72);
    }

    #[test]
    fn changes_in_one_direction_count_for_the_other() {
        let behavior = behavior(
            json!({"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}),
            json!({
                "stabilizationWindowSeconds": 0, "selectPolicy": "Max",
                "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}],
            }),
        );
        let mut history = History::default();
        history.scaled(Some(&behavior), 10, 8, at(0));
        // There were ten replicas at the start of the minute, so twelve are allowed.
        assert_eq!(history.decide(arg(Some(&behavior), 8, 50, 30)).replicas, 12);
    }

    #[test]
    fn extreme_numbers_do_not_overflow() {
        let behavior = behavior(
            json!({"policies": [{"type": "Pods", "value": i32::MAX, "periodSeconds": 1800}]}),
            json!({"policies": [{"type": "Percent", "value": i32::MAX, "periodSeconds": 1800}]}),
        );
        let mut history = History::default();
        for (current, desired) in [(i32::MAX, 0), (0, i32::MAX), (i32::MAX, i32::MAX)] {
            let arg = NormalizationArg { max: i32::MAX, ..arg(Some(&behavior), current, desired, 0) };
            history.scaled(Some(&behavior), current, desired, at(0));
            assert!(history.decide(arg).replicas >= 0);
            assert!(History::default().decide(NormalizationArg { behavior: None, ..arg }).replicas >= 0);
        }
    }
}
