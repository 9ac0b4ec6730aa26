import { expect, test } from '@jest/globals'
import { formatInstalledFiles } from '../../../core/provision/installed-files.ts'

test.each([
  ['http://127.0.0.1:4401', true],
  ['http://[::1]:4401', true],
  ['https://127.0.0.1:4401', false],
  ['http://192.0.2.7:4401', false],
])('a provisioned worker knows the user of its host by name at %s: %s', (url, isNamed) => {
  const { start } = formatInstalledFiles({
    base: '/opt/switchyard-worker',
    node: '/usr/bin/node',
    folder: 'switchyard-worker-1',
    version: '1',
    url,
    isExposed: false,
    hostUser: 'ada',
    name: 'forge',
    concurrency: 2,
    authority: '',
    manager: 'system',
    isRoot: true,
  })
  expect(start.includes('--host-user ada')).toBe(isNamed)
})
