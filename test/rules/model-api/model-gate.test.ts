/** Tests of what leaves for a model's vendor, and of what comes back: law 39. */
import { describe, expect, test } from '@jest/globals'
import { SERVER_TOOLS, type ServerTool } from '../../../protocol/agents/model-use.ts'
import type { AgentProvider } from '../../../protocol/agents/registry.ts'
import { createModelGate, isAllowedModel } from '../../../worker/model-api/model-gate.ts'
import { mayLeave, mayReturn } from '../../../worker/model-api/passing-headers.ts'

const lines: string[] = []

function pass(provider: AgentProvider, body: object, serverTools: readonly ServerTool[] = []) {
  lines.length = 0
  const gate = createModelGate({ provider, serverTools }, (line) => void lines.push(line))
  const path = '/v1beta/models/gemini-2.5-pro:generateContent'
  const passed = gate.passBody(path, JSON.parse(JSON.stringify(body)))
  return passed.ok ? passed.value : passed.refusal.message
}

const A = { model: 'claude-opus-5-5', max_tokens: 10, messages: [] }
const B = { model: 'gpt-6-sol', input: [] }
const C = { contents: [] }
const own = {
  name: 'Bash',
  input_schema: { properties: { url: { type: 'string' }, file_id: { type: 'string' } } },
}
const spoken = (...content: object[]) => ({ ...A, messages: [{ role: 'user', content }] })
const asked = (...content: object[]) => ({ ...B, input: [{ role: 'user', content }] })
const sent = (...parts: object[]) => ({ ...C, contents: [{ parts }] })
const URL_IMAGE = { type: 'image', source: { type: 'url', url: 'https://evil.example.org/secret' } }

describe('a body', () => {
  test.each<[string, AgentProvider, object]>([
    [
      'Claude Code',
      'agentA',
      {
        ...A,
        system: [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral', ttl: '1h' } }],
        tools: [own, { type: 'bash_20250124', name: 'bash' }],
        tool_choice: { type: 'auto' },
        thinking: { type: 'adaptive' },
        metadata: { user_id: 'u' },
        context_management: { edits: [] },
        output_config: { effort: 'high' },
        stream: true,
        messages: [
          {
            role: 'user',
            content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA' } }],
          },
          {
            role: 'assistant',
            content: [{ type: 'tool_use', id: '1', name: 'x', input: { source: URL_IMAGE.source } }],
          },
          {
            role: 'user',
            content: [{ type: 'tool_result', tool_use_id: '1', content: 'https://example.org' }],
          },
        ],
      },
    ],
    [
      'Codex',
      'agentB',
      {
        ...B,
        instructions: 'a',
        input: [
          {
            type: 'message',
            role: 'user',
            content: [{ type: 'input_image', image_url: 'data:image/png;base64,AA' }],
          },
          { type: 'function_call', call_id: '1', name: 'x', arguments: '{"file_id":"a"}' },
        ],
        tools: [
          { type: 'function', name: 'x', parameters: { properties: { image_url: {} } } },
          { type: 'custom', name: 'y' },
        ],
        tool_choice: 'auto',
        parallel_tool_calls: true,
        reasoning: { effort: 'high' },
        store: false,
        stream: true,
        include: ['reasoning.encrypted_content'],
        prompt_cache_key: 'k',
        client_metadata: { a: 'b' },
      },
    ],
    [
      'Gemini CLI',
      'agentC',
      {
        contents: [
          {
            parts: [{ functionCall: { name: 'x', args: { fileUri: 'a' } } }, { inlineData: { data: 'AA' } }],
          },
        ],
        systemInstruction: { parts: [{ text: 'a' }] },
        tools: [{ functionDeclarations: [{ name: 'x' }] }],
        toolConfig: { functionCallingConfig: { mode: 'AUTO' } },
        generationConfig: { temperature: 0, topP: 1, maxOutputTokens: 5, thinkingConfig: {} },
      },
    ],
  ])('of %s leaves as it is', (_name, provider, body) => {
    expect(pass(provider, body)).toEqual(body)
    expect(lines).toEqual([])
  })

  test.each<[string, AgentProvider, object, ServerTool | undefined]>([
    [
      'a remote MCP server',
      'agentA',
      { ...A, mcp_servers: [{ type: 'url', url: 'https://evil.example.org' }] },
      'mcp',
    ],
    [
      'a toolset of one',
      'agentA',
      { ...A, tools: [own, { type: 'mcp_toolset', mcp_server_name: 'x' }] },
      'mcp',
    ],
    [
      'a remote MCP server',
      'agentB',
      { ...B, tools: [{ type: 'mcp', server_url: 'https://evil.example.org' }] },
      'mcp',
    ],
    ['a remote MCP server', 'agentC', { ...C, tools: [{ mcpServers: [{}] }] }, 'mcp'],
    ['a container', 'agentA', { ...A, container: 'container_1' }, 'code_execution'],
    ['a file of a container', 'agentA', spoken({ type: 'container_upload', file_id: 'a' }), 'code_execution'],
    ['an answer in the background', 'agentB', { ...B, background: true }, undefined],
    ['a stored answer', 'agentB', { ...B, previous_response_id: 'resp_1' }, undefined],
    ['a stored conversation', 'agentB', { ...B, conversation: { id: 'c' } }, undefined],
    ['a stored item', 'agentB', { ...B, input: [{ type: 'item_reference', id: 'a' }] }, undefined],
    ['a stored prefix', 'agentC', { ...C, cachedContent: 'cachedContents/1' }, 'files'],
    ['a stored prefix in snake case', 'agentC', { ...C, cached_content: 'cachedContents/1' }, 'files'],
    ['an image’s address', 'agentA', spoken(URL_IMAGE), 'urls'],
    [
      'an image’s address in a result',
      'agentA',
      spoken({ type: 'tool_result', content: [URL_IMAGE] }),
      'urls',
    ],
    [
      'a document’s address in an unknown block',
      'agentA',
      spoken({ type: 'next', deep: [{ more: URL_IMAGE }] }),
      'urls',
    ],
    [
      'a stored file',
      'agentA',
      spoken({ type: 'document', source: { type: 'file', file_id: 'file_1' } }),
      'files',
    ],
    [
      'an image’s address',
      'agentB',
      asked({ type: 'input_image', image_url: 'https://evil.example.org/x' }),
      'urls',
    ],
    [
      'an image’s address in an object',
      'agentB',
      asked({ image_url: { url: 'https://evil.example.org' } }),
      'urls',
    ],
    [
      'a file’s address',
      'agentB',
      asked({ type: 'input_file', file_url: 'https://evil.example.org/x' }),
      'urls',
    ],
    ['a stored file', 'agentB', asked({ type: 'input_file', file_id: 'file-1' }), 'files'],
    ['a file’s address', 'agentC', sent({ fileData: { fileUri: 'https://evil.example.org/x' } }), 'urls'],
    [
      'the vendor’s address of a stored file',
      'agentC',
      sent({ fileData: { fileUri: 'https://generativelanguage.googleapis.com/v1beta/files/abc-1' } }),
      'files',
    ],
    [
      'a file’s address in snake case',
      'agentC',
      sent({ file_data: { file_uri: 'https://a.example.org' } }),
      'urls',
    ],
    [
      'a forced search',
      'agentA',
      {
        ...A,
        tools: [own, { type: 'web_search_20250305', name: 'web_search' }],
        tool_choice: { type: 'tool', name: 'web_search' },
      },
      'web_search',
    ],
    [
      'a forced search among none',
      'agentA',
      { ...A, tools: [{ type: 'web_search_20250305', name: 's' }], tool_choice: { type: 'any' } },
      'web_search',
    ],
    [
      'a forced search',
      'agentB',
      { ...B, tools: [{ type: 'web_search' }], tool_choice: { type: 'web_search' } },
      'web_search',
    ],
  ])('with %s is refused: %s', (_what, provider, body, tool) => {
    const refusal = pass(provider, body)
    expect(refusal).toMatch(
      tool === undefined ? /no setting allows it/ : `agent.serverTools can allow it with "${tool}"`,
    )
    if (tool !== undefined) expect(pass(provider, body, SERVER_TOOLS)).toBeInstanceOf(Object)
    else expect(pass(provider, body, SERVER_TOOLS)).toEqual(refusal)
  })

  test.each<[AgentProvider, object, object, string]>([
    ['agentA', { ...A, speed: 'fast' }, A, 'speed'],
    ['agentA', { ...A, inference_geo: 'us', fallbacks: [] }, A, 'fallbacks'],
    ['agentA', { ...A, service_tier: 'priority' }, A, 'service_tier'],
    [
      'agentA',
      { ...A, metadata: { user_id: 'u', x: 1 } },
      { ...A, metadata: { user_id: 'u' } },
      'metadata.x',
    ],
    [
      'agentA',
      { ...A, tools: [own, { type: 'web_search_20260209', name: 'web_search' }] },
      { ...A, tools: [own] },
      'the tool web_search',
    ],
    ['agentA', { ...A, tools: [{ type: 'advisor_20260301', name: 'advisor' }] }, A, 'the tool advisor'],
    ['agentB', { ...B, store: true, service_tier: 'priority' }, { ...B, store: false }, 'service_tier'],
    [
      'agentB',
      { ...B, tools: [{ type: 'web_search' }, { type: 'image_generation' }] },
      { ...B, store: false },
      'the tool image_generation',
    ],
    [
      'agentB',
      { ...B, tools: [{ type: 'shell', environment: { type: 'container_auto' } }] },
      { ...B, store: false },
      'the tool shell',
    ],
    [
      'agentC',
      { ...C, tools: [{ googleSearch: {}, functionDeclarations: [] }, { urlContext: {} }] },
      { ...C, tools: [{ functionDeclarations: [] }] },
      'the tool urlContext',
    ],
    [
      'agentC',
      { ...C, generationConfig: { candidateCount: 8, topK: 1 } },
      { ...C, generationConfig: { topK: 1 } },
      'generationConfig.candidateCount',
    ],
    ['agentC', { ...C, generation_config: {}, labels: {} }, C, 'labels'],
  ])('of %s loses what nobody knows or allows: %j', (provider, body, passed, named) => {
    expect(pass(provider, body)).toEqual(passed)
    expect(lines).toContain(`model api: ${named} is left out of requests`)
  })

  test('of a compaction says nothing of keeping', () => {
    const gate = createModelGate({ provider: 'agentB', serverTools: [] }, () => {})
    const passed = (path: string) => gate.passBody(path, { ...B, store: true })
    expect(passed('/v1/responses')).toEqual({ ok: true, value: { ...B, store: false } })
    expect(passed('/v1/responses/compact')).toEqual({ ok: true, value: B })
  })

  test('names what it loses once', () => {
    const gate = createModelGate({ provider: 'agentA', serverTools: [] }, (line) => void lines.push(line))
    lines.length = 0
    for (let at = 0; at < 3; at++) gate.passBody('', { ...A, next: 1 })
    expect(lines).toEqual(['model api: next is left out of requests'])
  })

  test('of a count of tokens is judged like the request that it counts', () => {
    const counted = { generateContentRequest: { model: 'models/x', ...sent({ fileData: { fileUri: 'a' } }) } }
    expect(pass('agentC', counted)).toMatch(/a stored file/)
    expect(pass('agentC', { generateContentRequest: { ...C, labels: 1 } })).toEqual({
      generateContentRequest: C,
    })
  })

  test('without a model, or with another’s, is refused', () => {
    expect(pass('agentA', { max_tokens: 1 })).toMatch(/names its model/)
    expect(pass('agentA', { ...A, model: 'gpt-6-sol' })).toMatch(/agent\.models can allow it/)
  })
})

describe('a model', () => {
  test.each<[AgentProvider, string | undefined, readonly string[] | undefined, string, boolean]>([
    ['agentA', undefined, undefined, 'claude-next-9', true],
    ['agentA', undefined, undefined, 'gpt-6-sol', false],
    ['agentA', 'claude-opus-5-5', undefined, 'claude-opus-5-5-20261101', true],
    ['agentA', 'claude-opus-5-5', undefined, 'claude-haiku-5-5', true],
    ['agentA', 'claude-opus-5-5', undefined, 'claude-fable-5-2', false],
    ['agentA', 'opus', undefined, 'claude-opus-7', true],
    ['agentA', 'opus[1m]', undefined, 'claude-opus-7[1m]', true],
    ['agentA', 'sonnet', undefined, 'claude-opus-7', false],
    ['agentA', 'opusplan', undefined, 'claude-sonnet-7', true],
    ['agentB', 'gpt-6-sol', undefined, 'gpt-6-astra', false],
    ['agentB', 'gpt-6-sol', undefined, 'gpt-6-luna', true],
    ['agentB', undefined, undefined, 'gpt-7', true],
    ['agentB', undefined, undefined, 'gpt-7-pro', false],
    ['agentB', undefined, undefined, 'gpt-7-pro-2027-01-01', false],
    ['agentB', undefined, undefined, 'o1', false],
    ['agentB', undefined, undefined, 'o3-pro', false],
    ['agentB', 'gpt-6-sol', undefined, 'gpt-image-1-mini', false],
    ['agentB', 'gpt-7-pro', undefined, 'gpt-7-pro', true],
    ['agentB', undefined, ['*-pro'], 'gpt-7-pro', true],
    ['agentC', undefined, undefined, 'gemini-4-pro', true],
    ['agentC', undefined, undefined, 'gemini-4-pro-image', false],
    ['agentC', 'gemini-4-pro', undefined, 'gemini-4-flash-image', false],
    ['agentC', 'pro', undefined, 'gemini-4-pro', true],
    ['agentC', 'gemini-2.5-pro', undefined, 'gemini-2.5-flash-lite', true],
    ['agentA', 'claude-opus-5-5', ['claude-sonnet-*'], 'claude-opus-5-5', false],
    ['agentA', 'claude-opus-5-5', ['claude-*-5', 'x'], 'claude-sonnet-5', true],
    ['agentA', 'claude-opus-5-5', ['*a*a*a*b'], 'a'.repeat(200), false],
  ])(
    'of %s with the run’s %s and the list %j: %s is allowed: %s',
    (provider, model, patterns, asked, allowed) => {
      const choice = {
        provider,
        ...(model === undefined ? {} : { model }),
        ...(patterns === undefined ? {} : { patterns }),
      }
      expect(isAllowedModel(asked, choice)).toBe(allowed)
    },
  )
})

describe('a header', () => {
  test.each([
    'x_api_key',
    'x-api-key',
    'x-http-method-override',
    'x-http-method',
    'cookie',
    'authorization',
    'openai-organization',
    'x-goog-user-project',
    'x-stainless_key',
    'content-encoding',
    'host',
    '__proto__',
    'x-next',
  ])('%s stays inside', (name) => {
    expect(mayLeave(name)).toBe(false)
  })
  test.each(['anthropic-version', 'user-agent', 'x-stainless-os', 'session_id', 'accept'])(
    '%s leaves',
    (name) => {
      expect(mayLeave(name)).toBe(true)
    },
  )
  test.each([
    'anthropic-organization-id',
    'openai-organization',
    'openai-project',
    'set-cookie',
    'location',
    'server',
    'www-authenticate',
    'x-codex-plan-type',
    'x-next',
  ])('%s of an answer stays outside', (name) => {
    expect(mayReturn(name)).toBe(false)
  })
  test.each([
    'content-type',
    'retry-after',
    'anthropic-ratelimit-unified-reset',
    'x-codex-primary-used-percent',
    'x-codex-bengalfox-primary-used-percent',
    'x-codex-credits-balance',
    'x-codex-active-limit',
    'etag',
    'request-id',
  ])('%s of an answer comes back', (name) => {
    expect(mayReturn(name)).toBe(true)
  })

  test('loses the betas that nobody knows', () => {
    const sent =
      'claude-code-20250219, interleaved-thinking-2027-01-01,mcp-client-2025-11-20,fast-mode-2026-02-01,next-2026-01-01'
    const betasOf = (serverTools: readonly ServerTool[]) =>
      createModelGate({ provider: 'agentA', serverTools }, (line) => void lines.push(line)).passHeaders({
        'anthropic-beta': sent,
      })['anthropic-beta']
    lines.length = 0
    expect(betasOf([])).toBe('claude-code-20250219,interleaved-thinking-2027-01-01')
    expect(lines).toContain('model api: the beta fast-mode-2026-02-01 is left out of requests')
    const gate = createModelGate({ provider: 'agentB', serverTools: [] }, () => {})
    expect(gate.passHeaders({ 'openai-beta': 'responses=experimental, assistants=v2' })).toEqual({
      'openai-beta': 'responses=experimental',
    })
    expect(gate.passHeaders({ accept: 'a', 'openai-beta': 'realtime=v1' })).toEqual({ accept: 'a' })
    expect(betasOf(['mcp'])).toBe(
      'claude-code-20250219,interleaved-thinking-2027-01-01,mcp-client-2025-11-20',
    )
  })
})
