# frozen_string_literal: true

require "faraday"
require_relative "../card_gateway_client"

module CardGateway
  # Signs what Faraday sends, and repeats a call as the same bytes. It must be the
  # last middleware:
  #
  #   Faraday.new(url) do |f|
  #     f.use CardGateway::FaradayMiddleware, CardGateway::Policy.new(url, key_id, secret)
  #   end
  #
  # Answers of every status are returned, and failed connections are raised as
  # Faraday does it. What cannot be signed raises UnsignableError, with
  # verify_answers what is not proven UnprovenError, and a call TakenError or
  # UnknownError. A request that has X-Nonce and X-Timestamp already is signed with
  # these.
  class FaradayMiddleware < Faraday::Middleware
    def initialize(app, policy)
      super(app)
      @policy = policy
    end

    def call(env)
      body = bytes(env)
      raise UnsignableError, "#{env.url.host} is not the host of the base URL" unless @policy.serves?(env.url)

      exchange = @policy.begin(env.method.to_s.upcase, chosen(env.request_headers))
      streams = env.request&.on_data
      if exchange.reads? && streams
        raise UnsignableError, "the answer to a call, or with verify_answers, is read before it is handed over; leave out on_data"
      end

      given = { "Accept-Encoding" => "identity" }.merge(env.request_headers)
      loop do
        env.request_headers = Faraday::Utils::Headers.new(given).merge(exchange.sign(env.url.request_uri, body))
        env.body = body unless body.empty?
        wait = begin
          response = @app.call(env)
          headers = response.headers.to_h.transform_keys(&:downcase)
          answer = Answer.new(response.status, headers, response.body.to_s)
          if !streams && Client.cut?(env.method.to_s.upcase, headers, answer.body)
            raise Faraday::ConnectionFailed, EOFError.new("the answer ends early")
          end

          exchange.after_answer(answer) || (return response)
        rescue Faraday::ConnectionFailed, Faraday::TimeoutError, Faraday::SSLError => e
          exchange.after_failure(sent?(e), e) || raise
        end
        [:status, :reason_phrase, :response_headers, :response].each { |member| env[member] = nil }
        sleep(wait)
      end
    end

    private

    # The call that the headers of a request name already, or a new one.
    def chosen(headers)
      call = @policy.new_call
      Call.new(headers["X-Nonce"] || call.nonce, (headers["X-Timestamp"] || call.timestamp).to_i)
    end

    # Whether the server may have received the request. Faraday says in one word that
    # no connection was made, and that one broke.
    def sent?(error)
      [Errno::ECONNREFUSED, SocketError, Net::OpenTimeout].none? { |kind| error.cause.is_a?(kind) } && !error.message.start_with?("SSL_connect")
    end

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
