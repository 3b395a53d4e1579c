# frozen_string_literal: true

require "faraday"
require_relative "../card_gateway_client"

module CardGateway
  # Signs what Faraday sends, each attempt anew. It must be the last middleware:
  #
  #   Faraday.new(url) do |f|
  #     f.request :json
  #     f.use CardGateway::FaradayMiddleware, CardGateway::Policy.new(url, key_id, secret)
  #   end
  #
  # Answers of every status are returned, and failed connections are raised as
  # Faraday does it. What cannot be signed raises UnsignableError, and with
  # verify_answers what is not proven UnprovenError.
  class FaradayMiddleware < Faraday::Middleware
    def initialize(app, policy)
      super(app)
      @policy = policy
    end

    def call(env)
      body = bytes(env)
      raise UnsignableError, "#{env.url.host} is not the host of the base URL" unless @policy.serves?(env.url)

      exchange = @policy.begin(env.method.to_s.upcase)
      if exchange.verifies? && env.request&.on_data
        raise UnsignableError, "an answer is verified before it is handed over; leave out on_data"
      end

      given = { "Accept-Encoding" => "identity" }.merge(env.request_headers)
      loop do
        env.request_headers = Faraday::Utils::Headers.new(given).merge(exchange.sign(env.url.request_uri, body))
        env.request_headers["Accept-Encoding"] = "identity" if exchange.verifies? # else the hash is of other bytes
        env.body = body unless body.empty?
        wait = begin
          response = @app.call(env)
          headers = response.headers.to_h.transform_keys(&:downcase)
          body_received = response.body.to_s
          if Client.cut?(env.method.to_s.upcase, headers, body_received)
            raise Faraday::ConnectionFailed, EOFError.new("the answer ends early")
          end

          exchange.after_answer(response.status, headers, body_received) || begin
            exchange.verify(Answer.new(response.status, headers, body_received))
            return response
          end
        rescue Faraday::ConnectionFailed, Faraday::TimeoutError => e
          # Faraday says in one word that no connection was made, and that one broke.
          exchange.after_failure(!e.cause.is_a?(Errno::ECONNREFUSED) && !e.cause.is_a?(SocketError)) || raise
        end
        [:status, :reason_phrase, :response_headers, :response].each { |member| env[member] = nil }
        sleep(wait)
      end
    end

    private

    def bytes(env)
      body = env.body
      case body
      when nil then ""
      when String then body
      else
        raise UnsignableError, "the body is a #{body.class}, which cannot be read twice, and its hash is sent before it: " \
                               "pass a String (CardGateway::Body.form makes one of a form)"
      end
    end
  end
end
