package main

import (
	"encoding/json"
	"strings"

	yaml "github.com/pb33f/go-yaml"
)

// jsonOf returns a value of the document as JSON, its members in their order. What
// fits a line stays on it.
func jsonOf(node *yaml.Node, indent string) string {
	if flat := flatJSON(node); len(indent)+len(flat) <= 110 {
		return flat
	}
	deeper := indent + "  "
	var parts []string
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			parts = append(parts, deeper+quoted(node.Content[i].Value)+": "+jsonOf(node.Content[i+1], deeper))
		}
		return "{\n" + strings.Join(parts, ",\n") + "\n" + indent + "}"
	case yaml.SequenceNode:
		for _, item := range node.Content {
			parts = append(parts, deeper+jsonOf(item, deeper))
		}
		return "[\n" + strings.Join(parts, ",\n") + "\n" + indent + "]"
	default:
		return flatJSON(node)
	}
}

func flatJSON(node *yaml.Node) string {
	var parts []string
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			parts = append(parts, quoted(node.Content[i].Value)+": "+flatJSON(node.Content[i+1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		for _, item := range node.Content {
			parts = append(parts, flatJSON(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	default:
		if node.Tag == "!!str" {
			return quoted(node.Value)
		}
		return node.Value // a number, true, false or null
	}
}

func quoted(text string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string can be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
