/** The official client of the Model Context Protocol, connected to the real `switchyard mcp` in a process. */
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { installedCommand, installedPath } from './command-process.ts'
import { closeAfterTest } from './test-resources.ts'

export interface McpClientOptions {
  readonly env?: Readonly<Record<string, string>>
  /** The newest revision is asked for by `server/discover`, older ones by `initialize`. */
  readonly isNewest?: boolean
}

export interface CalledTool {
  readonly isError: boolean
  readonly text: string
  readonly result: Readonly<Record<string, unknown>>
}

export interface McpClient {
  readonly client: Client
  readonly err: () => string
  call(name: string, input?: Record<string, unknown>, options?: CallToolOptions): Promise<CalledTool>
}

type CallToolOptions = Parameters<Client['callTool']>[1]

/** Longer than a run takes on a busy machine. */
const CALL_MS_MAX = 120_000

export async function connectMcp(
  args: readonly string[],
  { env = {}, isNewest = false }: McpClientOptions = {},
): Promise<McpClient> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [installedCommand(), 'mcp', ...args],
    env: { HOME: process.env.HOME ?? '', ...env, PATH: installedPath() },
    stderr: 'pipe',
  })
  let err = ''
  transport.stderr?.on('data', (chunk) => {
    err += String(chunk)
  })
  const client = new Client(
    { name: 'test', version: '1.0.0' },
    isNewest ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {},
  )
  closeAfterTest(() => client.close())
  await client.connect(transport)
  return {
    client,
    err: () => err,
    call: async (name, input = {}, options = {}) => {
      const limits = { timeout: CALL_MS_MAX, ...options }
      const { content, structuredContent, isError } = await client.callTool(
        { name, arguments: input },
        limits,
      )
      const [first] = content
      const text = first?.type === 'text' ? first.text : ''
      return { isError: isError === true, text, result: Object(structuredContent) }
    },
  }
}
