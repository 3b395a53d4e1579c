# frozen_string_literal: true

require_relative "lib/card_gateway/version"

Gem::Specification.new do |s|
  s.name = "card_gateway_client"
  s.version = CardGateway::VERSION
  s.summary = "Signs requests to the card API, repeats what may be repeated, and raises refusals as typed errors"
  s.homepage = "https://github.com/card-gateway/card-gateway"
  s.authors = ["The Card Gateway authors"]
  s.license = "Apache-2.0"
  s.required_ruby_version = ">= 3.0"
  s.files = Dir["lib/**/*.rb"] + ["README.md", "LICENSE"]
  s.metadata = { "rubygems_mfa_required" => "true" }
end
