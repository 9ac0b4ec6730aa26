/** The bundler defines this constant; in tests, which run the sources directly, it does not exist. */
declare const SWITCHYARD_VERSION: string | undefined
