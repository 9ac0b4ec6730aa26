/** Tests of public addresses: by table, and against an independent implementation. */
import { BlockList } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  isPublic,
  isPublicAndRemote,
  isPublicOrTranslated,
} from '../../../../providers/http/public-addresses.ts'

describe('public addresses', () => {
  test.each([
    '1.1.1.1',
    '9.255.255.255',
    '11.0.0.0',
    '100.63.255.255',
    '100.128.0.0',
    '126.255.255.255',
    '128.0.0.0',
    '140.82.121.4',
    '168.63.129.15',
    '168.63.129.17',
    '169.253.255.255',
    '172.15.255.255',
    '172.32.0.0',
    '192.167.255.255',
    '192.169.0.0',
    '198.17.255.255',
    '198.20.0.0',
    '223.255.255.255',
    '2606:4700:4700::1111',
    '2a00:1450:4001:80f::200e',
    '2001:4860:4860::8888',
    '2620:fe::fe',
    '64:ff9b::8.8.8.8', // a network without IPv4 reaches 8.8.8.8 so
    '64:ff9b::808:808',
    '2002:808:808::1',
    '2a00:1450::5efe:8.8.8.8',
  ])('%s is public', (address) => {
    expect(isPublic(address)).toBe(true)
  })
})

describe('addresses that are not public', () => {
  test.each([
    ['this network', ['0.0.0.0', '0.1.2.3']],
    ['loopback', ['127.0.0.1', '127.255.255.254', '::1']],
    ['private', ['10.0.0.1', '10.255.255.255', '172.16.0.1', '172.31.255.255', '192.168.0.1']],
    ['link-local', ['169.254.0.1', 'fe80::1', 'fe80::1%eth0', '2606:4700::1%eth0', 'febf::1']],
    ['site-local and unique local', ['fec0::1', 'fc00::1', 'fd12:3456::1', 'fdff::1']],
    ['behind a carrier', ['100.64.0.1', '100.127.255.255']],
    ['multicast', ['224.0.0.1', '239.255.255.255', 'ff02::1', 'ff0e::1']],
    ['unspecified, reserved and broadcast', ['::', '240.0.0.1', '255.255.255.255', '100::1', '5f00::1']],
    [
      'documentation and benchmarking',
      ['192.0.2.1', '198.51.100.7', '203.0.113.9', '198.18.0.1', '2001:db8::1', '3fff::1', '2001:2::1'],
    ],
    [
      'the metadata of clouds',
      [
        '169.254.169.254',
        '169.254.170.2',
        '100.100.100.200',
        '192.0.0.192',
        '168.63.129.16',
        'fd00:ec2::254',
      ],
    ],
    [
      'mapped and compatible',
      ['::ffff:8.8.8.8', '::ffff:127.0.0.1', '::ffff:7f00:1', '::127.0.0.1', '::8.8.8.8'],
    ],
    [
      'carried by NAT64',
      ['64:ff9b::127.0.0.1', '64:ff9b::a00:1', '64:ff9b::169.254.169.254', '64:ff9b:1::8.8.8.8'],
    ],
    ['carried by 6to4', ['2002:7f00:1::', '2002:a00:1::1', '2002:c0a8:101::1', '2002:a9fe:a9fe::1']],
    [
      'carried by ISATAP',
      ['2a00:1450::5efe:10.0.0.1', '2a00:1450::200:5efe:a9fe:a9fe', '2620:fe::5efe:192.168.0.1'],
    ],
    ['Teredo', ['2001::1', '2001:0:4136:e378:8000:63bf:3fff:fdd2']],
    [
      'no address at all',
      [
        '',
        'localhost',
        '127.1',
        '2130706433',
        '0x7f.0.0.1',
        '0177.0.0.1',
        '8.8.8.8.',
        ' 8.8.8.8',
        '08.8.8.8',
        '[::1]',
        '1::2::3',
        'g::',
      ],
    ],
  ])('%s', (_, addresses) => {
    expect(addresses.filter(isPublic)).toEqual([])
  })
})

test('a translated address counts as public only where proxies that answer for all names are expected', () => {
  const translated = ['198.18.0.7', '100.64.0.1', '203.0.113.80', '240.1.2.3', '64:ff9b::198.18.0.7']
  expect(translated.filter(isPublic)).toEqual([])
  expect(translated.filter(isPublicOrTranslated)).toEqual(translated)
  expect(['10.0.0.1', '::1', '64:ff9b::a9fe:a9fe', '2002:a00:1::'].filter(isPublicOrTranslated)).toEqual([])
})

test('a machine cannot reach its own public address, however it is written', () => {
  const own = ['127.0.0.1', '198.41.0.4', '2a01:4f8:0:1::2', 'fe80::1']
  expect(isPublicAndRemote('198.41.0.4', own)).toBe(false)
  expect(isPublicAndRemote('2a01:4f8::1:0:0:0:2', own)).toBe(false)
  expect(isPublicAndRemote('2A01:04F8:0000:0001:0000:0000:0000:0002', own)).toBe(false)
  expect(isPublicAndRemote('198.41.0.5', own)).toBe(true)
  expect(isPublicAndRemote('2a01:4f8:0:1::3', own)).toBe(true)
})

describe('compared with an independent implementation', () => {
  const listed = new BlockList()
  for (const block of [
    '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24',
    '192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4',
  ].flatMap((line) => line.split(' '))) {
    const [net = '', prefix] = block.split('/')
    listed.addSubnet(net, Number(prefix), 'ipv4')
  }
  /** Half of the samples are near the edges of blocks, where mistakes are likely. */
  const ipv4 = fc.oneof(
    fc.ipV4(),
    fc
      .tuple(
        fc.constantFrom(0, 9, 10, 11, 100, 126, 127, 169, 172, 192, 198, 203, 223, 224, 255),
        fc.nat(255),
        fc.nat(255),
        fc.nat(255),
      )
      .map((parts) => parts.join('.')),
  )

  test('IPv4 addresses are public unless a block contains them', () => {
    fc.assert(
      fc.property(ipv4, (address) => isPublic(address) === !listed.check(address, 'ipv4')),
      { numRuns: 5_000 },
    )
  })

  test('an address that embeds an IPv4 address is as public as that; a mapped one is never public', () => {
    fc.assert(
      fc.property(ipv4, (address) => {
        const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number)
        const hex = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
        expect(isPublic(`64:ff9b::${address}`)).toBe(isPublic(address))
        expect(isPublic(`2002:${hex}::1`)).toBe(isPublic(address))
        expect(isPublic(`::ffff:${address}`)).toBe(false)
      }),
    )
  })

  test('an IPv6 address outside the allocated block is not public', () => {
    fc.assert(
      fc.property(fc.ipV6(), (address) => {
        const first = Number.parseInt(address.startsWith('::') ? '0' : (address.split(':')[0] ?? '0'), 16)
        if ((first & 0xe000) !== 0x2000 && first !== 0x64) expect(isPublic(address)).toBe(false)
      }),
      { numRuns: 2_000 },
    )
  })
})
