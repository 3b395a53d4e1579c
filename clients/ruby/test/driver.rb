# frozen_string_literal: true

# Runs the cases of tests/clients/matrix through this client: one JSON object a
# line on standard input, one answer a line on standard output.

require "stringio"
require "card_gateway_client"
begin
  require "card_gateway/faraday"
rescue LoadError
  # it is not installed
end

def body(c)
  bytes = c["body"].unpack1("m0")
  return CardGateway::Body.form({ "type" => "passport" }, "file" => ["Zoë.pdf", bytes]) if c["kind"] == "form"

  CardGateway::Body.new("application/json", bytes) if c["has_body"]
end

def options(c)
  given = { now: -> { Time.now.to_f + c["clock"] }, warn: ->(_) {}, verify_answers: c["verify_answers"] }
  c["attempts"].zero? ? given : given.merge(attempts: c["attempts"])
end

def client(c)
  sender = CardGateway::Client.new(c["base"], c["key_id"], c["secret"], **options(c))
  path = CardGateway::Client.with_query(c["target"], (c["query"] || []).to_h)
  call = CardGateway::Call.new(c["nonce"], c["timestamp"].to_i) if c["nonce"]
  lambda do
    got = sender.request(c["method"], path, body: body(c), headers: c["headers"] || {}, call: call)
    { status: got.status, body: [got.body].pack("m0") }
  end
end

def faraday(c)
  policy = CardGateway::Policy.new(c["base"], c["key_id"], c["secret"], **options(c))
  connection = Faraday.new(c["base"]) do |f|
    f.use CardGateway::FaradayMiddleware, policy
    f.options.params_encoder = Faraday::FlatParamsEncoder
    f.adapter(:net_http) { |http| http.max_retries = 0 }
  end
  content = body(c)
  headers = c["headers"] || {}
  headers = headers.merge("Content-Type" => content.content_type) if content
  headers = headers.merge("X-Nonce" => c["nonce"], "X-Timestamp" => c["timestamp"]) if c["nonce"]
  lambda do
    method = c["method"].downcase.to_sym
    raise CardGateway::UnsignableError, "Faraday has no #{method}" unless Faraday::Connection::METHODS.include?(method)

    got = connection.run_request(method, CardGateway::Client.with_query(c["target"], (c["query"] || []).to_h), nil, headers) do |request|
      request.body = c["kind"] == "stream" ? StringIO.new(content.bytes) : content&.bytes
    end
    { status: got.status, body: [got.body.to_s].pack("m0") }
  rescue URI::InvalidURIError => e
    raise CardGateway::UnsignableError, e.message # Faraday's own refusal
  end
end

def way(c)
  c["adapter"] == "faraday" ? faraday(c) : client(c)
end

def run(c)
  case c["do"]
  when "hello"
    adapters = { client: true }
    adapters[:faraday] = false if defined?(CardGateway::FaradayMiddleware)
    { adapters: adapters, version: CardGateway::VERSION }
  when "trusts"
    { trusted: CardGateway::Policy.trusts_date?(URI(c["base"])) }
  when "sign"
    signer = CardGateway::Signer.new(c["key_id"], c["secret"])
    got = signer.headers(c["method"], c["target"] || "", c["body"].unpack1("m0"), timestamp: c["timestamp"], nonce: c["nonce"])
    { signature: got["X-Signature"], body_hash: got["X-Body-Hash"] }
  when "verify"
    headers = c["answer"].to_h { |name, values| [name.downcase, values.join(", ")] }
    answer = CardGateway::Answer.new(c["status"], headers, c["body"].unpack1("m0"))
    CardGateway::Signer.new(c["key_id"], c["secret"]).verify_answer(c["nonce"], answer, now: c["now"])
    { verified: true }
  when "close"
    sender = CardGateway::Client.new(c["base"], c["key_id"], c["secret"], **options(c))
    sender.close_call(CardGateway::Call.new(c["nonce"], c["timestamp"].to_i))
    { closed: true }
  when "parallel"
    send = way(c)
    { statuses: Array.new(c["count"]) { Thread.new { send.call[:status] } }.map(&:value) }
  else
    way(c).call
  end
end

def describe(error)
  case error
  when CardGateway::UnsignableError
    { type: "unsignable", message: error.message }
  when CardGateway::ApiError
    { type: "api", status: error.status, code: error.code, message: error.reason, details: error.details,
      request_id: error.request_id, retry_after: error.retry_after || 0, not_executed: error.not_executed? }
  when CardGateway::TakenError
    { type: "taken", message: error.message, nonce: error.call.nonce, timestamp: error.call.timestamp }
  when CardGateway::UnknownError
    { type: "unknown", attempts: error.attempts, message: error.message, nonce: error.call.nonce, timestamp: error.call.timestamp,
      until: error.call.until }
  when CardGateway::UnprovenError
    { type: "unproven", status: error.status, unsigned: error.unsigned?, message: error.message }
  when CardGateway::RedirectError
    { type: "redirect", location: error.location }
  when CardGateway::ConnectionError
    { type: "connection", sent: error.sent?, attempts: error.attempts }
  else
    return { type: "connection" } if defined?(Faraday) && error.is_a?(Faraday::Error)

    { type: "other", message: error.full_message }
  end
end

$stdout.sync = true
$stdin.set_encoding(Encoding::UTF_8)
while (line = $stdin.gets)
  begin
    answer = run(JSON.parse(line))
  rescue StandardError => e
    answer = { error: describe(e) }
  end
  puts JSON.generate(answer)
end
