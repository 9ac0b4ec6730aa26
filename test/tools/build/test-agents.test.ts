/** The command for the tests with real agents, as far as it goes without a network. */
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
import { tempFolder } from '../../support/temp-folder.ts'

const root = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))))

test('without a network it names the cause, and that no other command needs a network', () => {
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: tempFolder(),
    SWITCHYARD_REAL_AGENTS: tempFolder(),
    // Nobody listens there.
    npm_config_registry: 'http://127.0.0.1:9/',
  }
  const { status, stderr } = spawnSync(process.execPath, [join(root, 'build', 'test-agents.mjs')], {
    env,
    encoding: 'utf8',
  })
  expect(status).toBe(69)
  expect(stderr).toMatch(
    /^fetching @anthropic-ai\/claude-code@\S+ and @openai\/codex@\S+ and @google\/gemini-cli@\S+ into /,
  )
  expect(stderr).toContain('npm cannot reach its registry. Connect to the network once')
})
