/** `switchyard paths` and `switchyard version`, which need no host. */
import { join } from 'node:path'
import type { CommandContext } from '../client/run-command.ts'
import { resolveDataDir } from '../data-dir.ts'
import { VERSION } from '../version.ts'

export async function paths({ output, options }: CommandContext): Promise<void> {
  const data = resolveDataDir(options.dataDir)
  const found = {
    data,
    config: join(data, 'config.json'),
    launch: join(data, 'launch.json'),
    program: process.argv[1] ?? '',
  }
  if (output.format === 'json') output.json(found)
  else for (const [name, path] of Object.entries(found)) output.data(`${name.padEnd(9)}${path}`)
}

export async function version({ output }: CommandContext): Promise<void> {
  const { version: node, platform, arch } = process
  if (output.format === 'json') output.json({ version: VERSION, node, platform, arch })
  else output.data(VERSION)
}
