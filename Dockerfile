# PostgreSQL's official image with lsmam, preloaded:
#
#   docker build --build-arg PG=18 -t lsmam .
#   docker run -e POSTGRES_PASSWORD=... lsmam
#
# CREATE EXTENSION lsmam is for each database to say.
ARG PG=18

FROM postgres:${PG} AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
	g++ gcc make postgresql-server-dev-$PG_MAJOR \
	libicu-dev liblz4-dev librocksdb-dev libxxhash-dev libzstd-dev
COPY . /lsmam
RUN make -C /lsmam -j$(nproc) && make -C /lsmam install DESTDIR=/image

FROM postgres:${PG}
# the library's version is in its package's name
RUN apt-get update && apt-get install -y --no-install-recommends \
	liblz4-1 '^librocksdb[0-9.]+$' libxxhash0 libzstd1 && rm -rf /var/lib/apt/lists/*
COPY --from=build /image /
RUN echo "shared_preload_libraries = 'lsmam'" >> /usr/share/postgresql/$PG_MAJOR/postgresql.conf.sample
