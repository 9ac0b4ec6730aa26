/** The addresses that git may be given: one grammar for the configuration and for workers. */
import { describe, expect, test } from '@jest/globals'
import { completeConfig } from '../../../protocol/config.ts'
import { originsOfHostEntry, parseGitAddress } from '../../../protocol/git-address.ts'

describe('addresses', () => {
  test.each([
    ['https://code.example/ada/lamps.git', { protocol: 'https', host: 'code.example', port: 443 }],
    ['https://CODE.example:8443/x', { protocol: 'https', host: 'code.example', port: 8443 }],
    ['https://ada@code.example/x', { protocol: 'https', host: 'code.example', port: 443 }],
    ['http://127.0.0.1:99/ada/lamps.git', { protocol: 'http', host: '127.0.0.1', port: 99 }],
    ['http://localhost/x', { protocol: 'http', host: 'localhost', port: 80 }],
    ['https://[2620:fe::fe]/x', { protocol: 'https', host: '2620:fe::fe', port: 443 }],
    ['ssh://git@code.example/ada/lamps.git', { protocol: 'ssh', host: 'code.example', port: 22 }],
    ['ssh://git@code.example:2222/ada', { protocol: 'ssh', host: 'code.example', port: 2222 }],
    ['git@code.example:ada/lamps.git', { protocol: 'ssh', host: 'code.example', port: 22 }],
    ['git@code_host:ada/lamps.git', { protocol: 'ssh', host: 'code_host', port: 22 }],
    ['ssh://git@[2620:fe::fe]:2222/x', { protocol: 'ssh', host: '2620:fe::fe', port: 2222 }],
    ['git@code.example:v3/ada/My%20Lamps', { protocol: 'ssh', host: 'code.example', port: 22 }],
    ['ssh://git@code.example.:22/x', { protocol: 'ssh', host: 'code.example', port: 22 }],
    ['https://code.example./x', { protocol: 'https', host: 'code.example', port: 443 }],
    ['ssh://first.last%40corp@code.example/x', { protocol: 'ssh', host: 'code.example', port: 22 }],
    ['ssh://corp%5cada@code.example/x', { protocol: 'ssh', host: 'code.example', port: 22 }],
    ['/srv/my code/lamps.git', { protocol: 'file', path: '/srv/my code/lamps.git' }],
    ['file:///srv/my%20code/lamps.git', { protocol: 'file', path: '/srv/my code/lamps.git' }],
  ])('%j is accepted', (address, value) => {
    expect(parseGitAddress(address)).toEqual({ ok: true, value })
  })

  test.each([
    // Other transports, and options.
    'ext::sh -c touch% x',
    'ext::sh',
    'fd::17/x',
    'git://code.example/x',
    'ftp://code.example/x',
    '--upload-pack=x',
    '-oProxyCommand=x',
    'ssh://-oProxyCommand=x/y',
    'ssh://git@-oProxyCommand=x/y',
    'ssh://-x/y',
    'git@-x:y',
    '-x@code.example:y',
    'git@code.example:-oProxyCommand=x',
    'a@b::c',
    // Addresses in which git finds another host or user.
    'ssh://git@1.1.1.1/a@[127.0.0.1]:2222/x',
    'git@1.1.1.1:a@[127.0.0.1]:x',
    'ssh://git@1.1.1.1/%40%5B127.0.0.1%5D/x',
    'ssh://git@1.1.1.1/@%5b127.0.0.1%5d/x',
    'ssh://127.0.0.1%2Fx@code.example/x',
    'ssh://127.0.0.1%3A2222@code.example/x',
    'ssh://a%40%5B127.0.0.1%5D@code.example/x',
    'ssh://%2DoProxyCommand@code.example/x',
    'ssh://a%0Ab@code.example/x',
    'ssh://a%24b@code.example/x',
    'ssh://a%c3@code.example/x',
    // Protocols in another case, which git does not know.
    'HTTPS://code.example/x',
    'http\u017f://code.example/x',
    '\u017f\u017fh://git@code.example/x',
    // Hosts that programs read differently.
    'http://2130706433/x',
    'http://0x7f000001/x',
    'http://0x7f.1/x',
    'http://127.1/x',
    'http://127.0.0.1./x',
    'http://code.example../x',
    'http://2130706433./x',
    'http://code..example/x',
    'http://[::1%lo]/x',
    'http://[1.2.3.4]/x',
    'https://code.example\\@127.0.0.1/x',
    'https://code.example@127.0.0.1@code.example/x',
    'https://ada:planted@code.example/x',
    'https://code.example%2f@127.0.0.1/x',
    'https://code.example:0/x',
    'https://code.example:65536/x',
    'https://code.example:/x',
    'https://code.example',
    'https:///x',
    // Other machines as folders, and broken text.
    'file://host/srv/lamps.git',
    'file:srv/lamps.git',
    'file:///srv/%zz',
    'file:///srv/%00',
    'lamps',
    '',
    'https://code.example/a\nb',
    'https://code.example/a b',
    '/srv/a\nb',
    '/srv/a\0b',
  ])('%j is refused', (address) => {
    expect(parseGitAddress(address)).toMatchObject({ ok: false })
  })

  test.each(['ssh://first.last%40corp@code.example/x', 'ssh://git@code.example.:22/x'])(
    'the configuration accepts %j',
    (cloneUrl) => {
      expect(completeConfig({ repos: { lamps: { remote: 'ada/lamps', cloneUrl } } })).toMatchObject({
        ok: true,
      })
    },
  )

  test.each(['file://host/srv/lamps.git', 'http://127.1/x', 'git@-x:y', 'https://code.example:99999/x'])(
    'the configuration refuses %j too, with the key and the cure',
    (cloneUrl) => {
      const parsed = parseGitAddress(cloneUrl)
      const error = parsed.ok ? '' : parsed.error
      expect(completeConfig({ repos: { lamps: { remote: 'ada/lamps', cloneUrl } } })).toEqual({
        ok: false,
        error: `/repos/lamps/cloneUrl: ${error}`,
      })
      expect(error).toMatch(/set it to an https, ssh or file address, or to a path$/)
    },
  )
})

test.each([
  ['git.corp.example', ['git.corp.example:443', 'git.corp.example:80', 'git.corp.example:22']],
  ['Git.corp.example:8443', ['git.corp.example:8443']],
  ['git.corp.example.:443', ['git.corp.example:443']],
  ['git.9x:443', []],
  ['10.0.0.5:443', ['10.0.0.5:443']],
  ['::1', ['[::1]:443', '[::1]:80', '[::1]:22']],
  ['[::1]:99', ['[::1]:99']],
  ['https://git.corp.example', []],
  ['git.corp.example/x', []],
  ['ada@git.corp.example', []],
  ['git.corp.example:0', []],
  ['', []],
  ['*', []],
])('the private code host %j stands for %j', (entry, origins) => {
  expect(originsOfHostEntry(entry)).toEqual(origins)
})
