package commands

import (
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Each flag of each command can be given once only, unless it takes a list: of two values
// one would be lost without a word.
func TestFlagsAreGivenOnce(t *testing.T) {
	seen := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				_, list := f.Value.(pflag.SliceValue)
				value := map[string]string{"bool": "true", "string": "x", "duration": "1s", "stringSlice": "x", "stringArray": "x"}[f.Value.Type()]
				if value == "" {
					value = "1"
				}
				if err := flags.Set(f.Name, value); err != nil {
					t.Fatalf("%s --%s: %v", cmd.Name(), f.Name, err)
				}
				if err := flags.Set(f.Name, value); (err == nil) != list || err != nil && !strings.Contains(err.Error(), "give it once") {
					t.Errorf("%s --%s, a %s, a second time: %v", cmd.Name(), f.Name, f.Value.Type(), err)
				}
				seen++
			})
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	for name, command := range caddycmd.Commands() {
		if strings.HasPrefix(name, "card-") {
			cmd := &cobra.Command{Use: name}
			command.CobraFunc(cmd)
			check(cmd)
		}
	}
	if seen < 40 {
		t.Errorf("%d flags were found", seen)
	}
}
