/** The worker of a supervisor inherits no credential of the program that starts it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { createProcessDriver } from '../../../providers/worker-process.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'

test('keys and tokens of the supervisor are not in the worker’s environment', async () => {
  const file = join(tempFolder(), 'environment')
  const script = `require('fs').writeFileSync(${JSON.stringify(file)}, require('fs').readFileSync('/proc/self/environ'))`
  const driver = createProcessDriver({
    program: [process.execPath, '-e', script],
    args: [],
    environment: {
      PATH: process.env.PATH,
      SWITCHYARD_SANDBOX_DIR: '/srv/sandboxes',
      SWITCHYARD_TOKEN: 'planted',
      GITHUB_TOKEN: 'planted',
      ANTHROPIC_API_KEY: 'planted',
      https_proxy: 'http://proxy.example:3128',
    },
  })
  const ended = new Promise((resolve) => {
    driver.onEnded = resolve
  })
  expect(await driver.start()).toEqual({ is: 'done' })
  await ended
  await until('it has written its environment', () => readFileSync(file, 'utf8') !== '')
  expect(readFileSync(file, 'utf8').split('\0').filter(Boolean).sort()).toEqual([
    `PATH=${process.env.PATH}`,
    'SWITCHYARD_SANDBOX_DIR=/srv/sandboxes',
    'https_proxy=http://proxy.example:3128',
  ])
})
