package report

import (
	"fmt"
	"image/color"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// A Plot describes which scenarios are side by side in a figure, and their
// labels.
type Plot struct {
	File, Title string
	Axis        string
	Points      []Point
	Cost        bool // CPU per request with Redis; else requests per second
}

// A Point is a scenario on the axis of a plot.
type Point struct{ Scenario, Label string }

// palette has colours that can be told apart without seeing red or green.
var palette = []color.RGBA{
	{0x00, 0x00, 0x00, 0xff}, {0x99, 0x99, 0x99, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x00, 0x72, 0xb2, 0xff},
	{0xd5, 0x5e, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0xcc, 0x79, 0xa7, 0xff}, {0x00, 0x9e, 0x73, 0xff},
	{0xf0, 0xe4, 0x42, 0xff},
}

// Draw writes the plots as SVG into dir, and returns the names of the files. It
// leaves out plots without any measurement.
func (r *Results) Draw(dir string, n Names, servers []string, plots []Plot) ([]string, error) {
	lines := r.Lines(n.Baseline, n.ByHand)
	var drawn []string
	for _, p := range plots {
		points := slices.DeleteFunc(slices.Clone(p.Points), func(at Point) bool {
			return !slices.ContainsFunc(lines, func(l Line) bool { return l.Scenario == at.Scenario })
		})
		if len(points) == 0 {
			continue
		}
		p.Points = points
		if err := p.draw(filepath.Join(dir, p.File), lines, n, servers); err != nil {
			return drawn, fmt.Errorf("drawing %s: %w", p.File, err)
		}
		drawn = append(drawn, p.File)
	}
	return drawn, nil
}

// draw writes one group of bars for each point, a bar for each server.
func (p *Plot) draw(path string, lines []Line, n Names, servers []string) error {
	figure := plot.New()
	figure.Title.Text, figure.X.Label.Text = p.Title, p.Axis
	figure.Y.Label.Text, figure.Y.Min = "requests per second", 0
	if p.Cost {
		figure.Y.Label.Text = "µs of CPU per request, Redis included"
	}
	figure.Legend.Top, figure.Legend.ThumbnailWidth = true, vg.Points(10)
	figure.Add(plotter.NewGrid())
	shown := slices.DeleteFunc(slices.Clone(servers), func(s string) bool {
		return !slices.ContainsFunc(lines, func(l Line) bool { return l.Server == s && p.has(l.Scenario) })
	})
	width := vg.Points(400 / float64(len(p.Points)*(len(shown)+1)))
	highest := 0.0
	for i, server := range shown {
		values := make(plotter.Values, len(p.Points))
		for j, at := range p.Points {
			for _, l := range lines {
				if l.Scenario == at.Scenario && l.Server == server {
					values[j] = p.value(&l)
				}
			}
			highest = max(highest, values[j])
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return err
		}
		bars.Offset = width * vg.Length(float64(i)-float64(len(shown)-1)/2)
		bars.Color, bars.Width = palette[slices.Index(servers, server)%len(palette)], width
		bars.LineStyle.Width = 0
		figure.Add(bars)
		figure.Legend.Add(n.Server(server), bars)
	}
	figure.Y.Max = highest * 1.5 // room for the legend
	labels := make([]string, len(p.Points))
	for i, at := range p.Points {
		labels[i] = at.Label
	}
	figure.NominalX(labels...)
	return figure.Save(vg.Points(560), vg.Points(330), path)
}

func (p *Plot) has(scenario string) bool {
	return slices.ContainsFunc(p.Points, func(at Point) bool { return at.Scenario == scenario })
}

func (p *Plot) value(l *Line) float64 {
	if p.Cost {
		return l.TotalCPU()
	}
	return l.PerSecond
}
