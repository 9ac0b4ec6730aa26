/** The router: paths, parameters and encodings. */
import { expect, test } from '@jest/globals'
import { routes } from '../../../protocol/routes.ts'
import { createRouter, decodeParams } from '../../../transport/router.ts'

const row = (method: string, path: string) => ({ method, path })

test('every route of the protocol is found at its own path only', () => {
  const find = createRouter(Object.values(routes))
  for (const { method, path } of Object.values(routes)) {
    const asked = path.replaceAll(/:\w+/g, 'x')
    expect(find(asked)?.path.byMethod.get(method)?.path).toBe(path)
    expect(find(`${asked}/`)).toBeUndefined()
    expect(find(`${asked}/more/than/that`)).toBeUndefined()
    expect(find(asked.slice(1))).toBeUndefined()
    expect(find(asked.replace('/', '//'))).toBeUndefined()
  }
})

test('a static path wins over a parameter', () => {
  const find = createRouter([row('POST', '/a/:id'), row('GET', '/a/b')])
  expect(find('/a/b')?.path.allow).toBe('GET')
  expect(find('/a/c')?.path.allow).toBe('POST')
})

test('the methods of one path are listed together', () => {
  expect(createRouter([row('GET', '/a'), row('PUT', '/a')])('/a')?.path.allow).toBe('GET, PUT')
})

test('a parameter is decoded once, after the path was split', () => {
  const found = createRouter([row('GET', '/a/:x/b/:y')])('/a/o%2Fn/b/%252e%C3%BC')
  expect(found && decodeParams(found)).toEqual({ x: 'o/n', y: '%2eü' })
})

test('an encoded letter is not the letter', () => {
  expect(createRouter([row('GET', '/api/health')])('/api/%68ealth')).toBeUndefined()
})

test('an empty parameter does not match', () => {
  expect(createRouter([row('GET', '/a/:x')])('/a/')).toBeUndefined()
})

test('broken encoding is detected', () => {
  const find = createRouter([row('GET', '/a/:x')])
  for (const bad of ['%', '%z', '%zz', '%e4', '%c3%28', '%ff']) {
    const found = find(`/a/${bad}`)
    expect(found && decodeParams(found)).toBeUndefined()
  }
})
