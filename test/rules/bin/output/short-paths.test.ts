import { expect, test } from '@jest/globals'
import { shortenHome } from '../../../../bin/output/short-names.ts'

test.each([
  ['/home/ann/.local/share/switchyard', '/home/ann', '~/.local/share/switchyard'],
  ['no host is running for /home/ann/data', '/home/ann', 'no host is running for ~/data'],
  ['/home/ann: not a folder', '/home/ann', '~: not a folder'],
  ['/home/anna/data and /srv/home/ann/data', '/home/ann', '/home/anna/data and /srv/home/ann/data'],
  ['/data', '/', '/data'],
  ['/home/a+b/data', '/home/a+b/', '~/data'],
])('%s with the home %s is %s', (text, home, short) => {
  expect(shortenHome(text, home)).toBe(short)
})
