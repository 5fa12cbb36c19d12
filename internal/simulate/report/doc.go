// Package report writes the result of a simulated race as one HTML file that
// needs nothing else: no script, no font, no request. It is readable on light
// and dark screens and on paper, and says nothing by colour alone.
//
// The package knows nothing of etcd or of how a race is run: it turns a Page,
// which is plain data, into text. It is pure and safe for concurrent use.
package report
