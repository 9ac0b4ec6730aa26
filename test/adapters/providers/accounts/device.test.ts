/** The address of a code host's device flow, derived from the address of its API. */
import { expect, test } from '@jest/globals'
import { no } from '../../../../core/result.ts'
import type { HttpRequest } from '../../../../providers/http/http-types.ts'
import { configWith, createTestAccounts, refusedAs } from './accounts-fixture.ts'

test.each([
  [undefined, 'https://github.com'],
  ['https://api.github.com/', 'https://github.com'],
  ['https://code.example/api/v3', 'https://code.example'],
  ['https://code.example:8443/api/v3/', 'https://code.example:8443'],
  ['https://api.acme.ghe.com', 'https://acme.ghe.com'],
])(
  'the flow of the API at %s is at %s, and is asked with a form and without a secret',
  async (apiUrl, site) => {
    const sent: HttpRequest[] = []
    const http = {
      send: async (request: HttpRequest) => {
        sent.push(request)
        return no('failed', 'nobody is there')
      },
      close: async () => {},
    }
    const accounts = createTestAccounts({ http })
    const config = configWith({
      codehost: apiUrl === undefined ? {} : { apiUrl },
      connect: { codehostClientId: 'own', trackerClientSecret: 'planted' },
    })
    expect(await accounts.startDevice(config)).toMatchObject(refusedAs('failed'))
    expect(await accounts.pollDevice(config, 'dc')).toMatchObject(refusedAs('failed'))
    expect(sent.map(({ url, tries }) => [url, tries])).toEqual([
      [`${site}/login/device/code`, 1],
      [`${site}/login/oauth/access_token`, 1],
    ])
    expect(JSON.stringify(sent)).not.toContain('planted')
  },
)
