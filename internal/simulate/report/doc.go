// Package report draws the result of a simulated race: as one HTML file that
// needs nothing else, no script, no font, no request, and its timelines as one
// SVG file that is as independent. It draws a terminal's screen in the same way.
// What it draws is readable on light and dark screens and on paper, and says
// nothing by colour alone.
//
// The package knows nothing of etcd or of how a race is run: it turns plain data
// into text. It is pure and safe for concurrent use.
package report
