/** The listener that `switchyard serve` chooses, and what it says about it. */
import { cpSync, readdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from '@jest/globals'
import { commandPath, configWithAnyPort, serve } from '../support/command-process.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

function dataDir(): string {
  const folder = tempFolder()
  writeFileSync(join(folder, 'config.json'), configWithAnyPort(), { mode: 0o600 })
  return folder
}

const root = dirname(dirname(dirname(commandPath)))

/** The log arrives by another way than the answers, and may be later. */
const logsListener = (host: ReturnType<typeof serve>): Promise<void> =>
  until('the line about the listener', () => host.err().includes('listener: '))

test('SWITCHYARD_LISTENER=node serves on node:http, and the log says so once', async () => {
  const host = serve(dataDir(), ['--log-format', 'json'], { SWITCHYARD_LISTENER: 'node' })
  expect((await host.request('/api/health')).status).toBe(200)
  const { url } = await host.waitForLaunch()
  // The native listener sends no such header.
  const reply = await fetch(`${url}/api/health`)
  expect(reply.headers.get('keep-alive')).toBe('timeout=10')
  await logsListener(host)
  const lines = host.err().match(/listener: [^"]*/g)
  expect(lines).toEqual(['listener: node:http (SWITCHYARD_LISTENER=node is set)'])
})

test('an altered binary is not loaded: the log names it as an error, and node:http serves', async () => {
  const install = tempFolder()
  cpSync(join(root, 'dist'), join(install, 'dist'), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(install, 'node_modules'))
  const binaries = join(install, 'dist', 'listener')
  for (const name of readdirSync(binaries)) truncateSync(join(binaries, name), 4_096)
  const program = join(install, 'dist', 'bin', 'switchyard.js')
  const host = serve(dataDir(), ['--log-format', 'json'], {}, program)
  expect((await host.request('/api/health')).status).toBe(200)
  await logsListener(host)
  const file = join(binaries, `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`)
  const errors = host
    .err()
    .split('\n')
    .filter((line) => line.includes('"level":50'))
  expect(errors).toEqual([expect.stringContaining(`"file":"${file}"`)])
  expect(host.err()).toMatch(/"listener: node:http \(.* altered: [^"]*\.node\)"/)
})
