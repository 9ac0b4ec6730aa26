/** The options that say where a worker finds its host. */
import { expect, test } from '@jest/globals'
import { type HostChoice, resolveHost } from '../../../bin/programs/worker/resolve-host.ts'
import { createRecordingLog } from '../../support/recording-log.ts'

test.each<[string, HostChoice]>([
  ['--host', { host: 'http://127.0.0.1:4400' }],
  ['--fingerprint', { fingerprint: 'ab' }],
  ['--ca-file', { caFile: 'ca.pem' }],
  ['--insecure', { insecure: true }],
])('%s has no place beside the data directory of the host', (option, given) => {
  const choice = { hostDataDir: '/data', ...given }
  expect(() => resolveHost(choice, createRecordingLog())).toThrow(`${option}: leave it out`)
})
