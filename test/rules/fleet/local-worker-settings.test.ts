/** The local worker may reach the code host of the configuration besides what the operator names. */
import { expect, test } from '@jest/globals'
import { localWorkerSettings } from '../../../core/fleet/local-worker.ts'
import { completeConfig } from '../../../protocol/config.ts'

test.each([
  ['https://git.corp.example/api/v3', 'git.corp.example:443'],
  ['https://git.corp.example:8443/api/v3', 'git.corp.example:8443'],
  ['https://git.corp.example./api/v3', 'git.corp.example:443'],
  ['http://127.0.0.1:3000/api', '127.0.0.1:3000'],
  ['https://[::1]/api', '[::1]:443'],
  ['https://git.9x/api', null],
  ['https://git-.example/api', null],
])('the code host at %s is private at %j', (apiUrl, codeHostOrigin) => {
  const config = completeConfig({ codehost: { driver: 'github', apiUrl } })
  expect(config).toMatchObject({ ok: true })
  if (config.ok) expect(localWorkerSettings(config.value.effective)).toMatchObject({ codeHostOrigin })
})
