use super::*;

#[test]
fn text_is_escaped_everywhere() {
    assert_eq!(Escaped("<a href='x'>\"&\"</a>").to_string(), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;&lt;/a&gt;");
}

#[test]
fn points_outside_the_axes_stay_within_the_picture() {
    let points = vec![[-1.0, 2.0], [5.0, -3.0]];
    let mut svg = String::new();
    precision_plot(vec![Line { name: "", colour: RIGHT, points, dots: true }])
        .write(&mut svg)
        .expect("a string takes all");
    assert!(svg.contains("points=\"60.0,50.0 465.0,270.0 \""), "{svg}");
}

#[test]
fn a_bar_is_as_high_as_its_count() {
    let histogram = Histogram::of([(0.5, true), (0.51, true), (0.99, false)].into_iter());
    let mut svg = String::new();
    histogram_plot("x", ["a", "b"], &histogram).write(&mut svg).expect("a string takes all");
    assert!(svg.contains("height=\"88.0\" fill=\"#0072b2\"><title>2</title>"), "{svg}");
    assert!(svg.contains("height=\"44.0\" fill=\"#d55e00\"><title>1</title>"), "{svg}");
}
